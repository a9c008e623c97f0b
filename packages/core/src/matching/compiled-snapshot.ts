/** The snapshot that decisions read. */
import type { CompiledRule, Needs, Snapshot } from './compiled.js'

/** Constructed in one place, so that all snapshots have one hidden class. */
class CompiledSnapshot implements Snapshot {
  readonly rules: Snapshot['rules']
  readonly byId: Snapshot['byId']
  readonly index: Snapshot['index']
  readonly overrides: Snapshot['overrides']
  readonly needs: Needs
  readonly allNeeds: Needs
  readonly strictPaths: boolean
  readonly classifier: Snapshot['classifier']
  readonly shed: Snapshot['shed']
  readonly countsMessages: boolean
  readonly hasDurable: boolean
  readonly region: Snapshot['region']
  readonly ipv6Prefix: number
  readonly secret: Snapshot['secret']
  readonly limitKey: Snapshot['limitKey']
  readonly everybody: Snapshot['everybody']
  readonly routes: Snapshot['routes']
  readonly routeOf: Snapshot['routeOf']

  constructor(base: Omit<Snapshot, 'overrides'>, overrides: Snapshot['overrides']) {
    const endingOf = (order: number) => overrides?.[order]?.ending ?? 0
    this.rules = base.rules
    this.byId = base.byId
    this.index = base.index
    this.overrides = overrides
    const some = (isMet: (rule: CompiledRule, order: number) => boolean) => ({
      active: base.rules.some((rule, order) => rule.mode !== 'off' && isMet(rule, order)),
      any: base.rules.some(isMet),
    })
    const clock = some((_, order) => endingOf(order) > 0)
    const places = some(({ overrideLimits }) => overrideLimits.hasPlaces)
    this.needs = withOverrideNeeds(base.needs, clock.active, places.active)
    this.allNeeds = withOverrideNeeds(base.allNeeds, clock.any, places.any)
    this.strictPaths = base.strictPaths
    this.classifier = base.classifier
    this.shed = base.shed
    this.countsMessages = base.countsMessages
    this.hasDurable = base.hasDurable
    this.region = base.region
    this.ipv6Prefix = base.ipv6Prefix
    this.secret = base.secret
    this.limitKey = base.limitKey
    this.everybody = base.everybody
    this.routes = base.routes
    this.routeOf = base.routeOf
  }
}

/** Returns a snapshot with the same rules and these overrides. */
export function withOverrides(
  base: Omit<Snapshot, 'overrides'>,
  overrides: NonNullable<Snapshot['overrides']>,
): Snapshot {
  const hasAny = overrides.some((index) => index !== undefined)
  return new CompiledSnapshot(base, hasAny ? overrides : undefined)
}

/** Overrides with an end need the wall clock, and those that count calls in flight their end. */
function withOverrideNeeds(needs: Needs, clock: boolean, hasPlaces: boolean): Needs {
  const { route, method, path, goodPath, ip, deadline, hedge, coordination } = needs
  const places = needs.places || hasPlaces
  return { route, method, path, goodPath, ip, clock, deadline, hedge, coordination, places }
}
