/** Compiles a rule set into an immutable snapshot. */
import { MESSAGE } from '../call.js'
import { IPV6_PREFIX_DEFAULT } from '../identity/address.js'
import { callerHash, deriveKey } from '../key.js'
import type { Limit, LimitSpec } from '../limit.js'
import type { Rule, RuleSet } from '../rules/rule.js'
import type { SipKey } from '../sip-hash.js'
import { compileLimits, compileTiers, InternPool, type LimitContext } from './compile-limits.js'
import { SHARE_WHOLE } from './ceilings.js'
import type { CompiledRule, CompiledShed, Needs, Snapshot } from './compiled.js'
import { Classifier } from './classify.js'
import { isSameList } from './override-index.js'
import { carryOverrides, prioritiesOf } from './overrides.js'
import { compileRoutes, nameRoutes } from './compile-routes.js'
import { compileRegion, isSameRegion, type RegionPlace } from './region-limits.js'
import { RuleIndex } from './rule-index.js'
import {
  filingOf,
  compileMatch,
  type CompiledMatch,
  type AttributeVariety,
  varietyOf,
} from './compiled-match.js'
import { OverrideLimits } from './override-limits.js'
import { withOverrides } from './compiled-snapshot.js'
import { countsInFlight } from './in-flight.js'

export interface CompileOptions {
  /** The key that hashes callers; nodes that share counters share it. */
  readonly secret: SipKey
  /** How many bits of an IPv6 address make a caller: 32 to 64. */
  readonly ipv6Prefix?: number
  /** The region of the node. @default there is only one */
  readonly regions?: RegionPlace | undefined
}

interface Context extends LimitContext {
  readonly ipv6Prefix: number
  readonly strictPaths: boolean
  readonly variety: AttributeVariety
  readonly lists: AttributeLists
  /** Of each rule, at its index. */
  readonly matches: readonly CompiledMatch[]
  /** The previous snapshot, if it was compiled with the same options. */
  readonly before: Snapshot | undefined
}

/**
 * The rules must have passed `parseRules`; rules that it refuses throw here. Standalone overrides
 * of the snapshot `before` are kept if their rule still exists, and so are the compiled forms of
 * rules that are the same objects.
 */
export function compileRules(set: RuleSet, options: CompileOptions, before?: Snapshot): Snapshot {
  const { secret, ipv6Prefix = IPV6_PREFIX_DEFAULT } = options
  const { strictPaths, priorities = [] } = set
  const region = compileRegion(options.regions, set.shares)
  const isSameKey = before !== undefined && areKeysEqual(secret, before.secret)
  const hasSameOptions =
    isSameKey &&
    before.strictPaths === strictPaths &&
    before.ipv6Prefix === ipv6Prefix &&
    isSameRegion(before.region, region) &&
    isSameList(prioritiesOf(before), priorities)
  const matches = set.rules.map((rule) => {
    const known = before?.byId.get(rule.id)
    return known?.rule === rule ? known : compileMatch(rule)
  })
  const context: Context = {
    limitKey: isSameKey ? before.limitKey : deriveKey(secret, 'limit'),
    limits: new InternPool<Limit>(),
    priorities,
    region,
    ipv6Prefix,
    strictPaths,
    variety: varietyOf(matches),
    lists: new AttributeLists(before?.rules ?? []),
    matches,
    before: hasSameOptions ? before : undefined,
  }
  const rules = set.rules.map((rule, order) => compileRule(rule, order, context))
  const active = rules.filter(({ mode }) => mode !== 'off')
  const { limitKey } = context
  const classifier =
    priorities.length === 0 ? undefined : new Classifier(priorities, set.classify, strictPaths)
  const base = {
    rules,
    byId: new Map(rules.map((rule) => [rule.id, rule])),
    index: new RuleIndex(active, strictPaths),
    needs: needsOf(set, active, classifier),
    allNeeds: needsOf(set, rules, classifier),
    classifier,
    shed: compileShed(set),
    countsMessages: active.some(({ methods }) => methods?.has(MESSAGE)),
    hasDurable: active.some(({ rule }) => rule.durable),
    strictPaths,
    region,
    ipv6Prefix,
    secret,
    limitKey,
    everybody: callerHash(secret, []),
    routes: nameRoutes(set.routes, strictPaths),
    routeOf: compileRoutes(set.routes, strictPaths),
  }
  return withOverrides(base, carryOverrides(rules, base, before))
}

function compileRule(rule: Rule, order: number, context: Context): CompiledRule {
  const known = context.before?.byId.get(rule.id)
  const same = known?.rule === rule ? known : undefined
  const match = context.matches[order] ?? compileMatch(rule)
  const filing = filingOf(match.conditions, context.variety)
  if (same?.order === order && same.filedUnder === filing.filedUnder) return same
  const { limits, tiers, candidate } = same ?? compileAllLimits(rule, context)
  // Fields that every decision reads come first, so that they share a cache line or two.
  return {
    rest: filing.rest,
    by: context.lists.intern(rule.by),
    candidate,
    limits,
    tiers,
    cost: rule.cost,
    mode: rule.mode,
    order,
    id: rule.id,
    conditions: match.conditions,
    filedUnder: filing.filedUnder,
    pattern: match.pattern,
    methods: match.methods,
    rule,
    overrideLimits: same?.overrideLimits ?? new OverrideLimits(rule, context),
  }
}

function compileAllLimits(
  rule: Rule,
  context: Context,
): Pick<CompiledRule, 'limits' | 'tiers' | 'candidate'> {
  const compileEnforced = (specs: readonly LimitSpec[]) => compileLimits(specs, rule, context)
  const compileCandidate = (specs: readonly LimitSpec[]) =>
    compileLimits(specs, rule, context, true)
  const { candidate } = rule
  return {
    limits: compileEnforced(rule.limits),
    tiers: compileTiers(rule.tiers, context, compileEnforced),
    candidate: candidate && {
      limits: compileCandidate(candidate.limits),
      tiers: compileTiers(candidate.tiers, context, compileCandidate),
    },
  }
}

/**
 * Interns equal lists of attributes, so that rules that count by the same attributes hash a caller
 * once.
 */
class AttributeLists {
  readonly #known = new Map<string, readonly string[]>()

  constructor(rules: readonly CompiledRule[]) {
    for (const { by } of rules) this.intern(by)
  }

  intern(by: readonly string[]): readonly string[] {
    // Attribute names have no spaces.
    const text = by.join(' ')
    const known = this.#known.get(text)
    if (known !== undefined) return known
    this.#known.set(text, by)
    return by
  }
}

function areKeysEqual(a: SipKey, b: SipKey): boolean {
  return a.k0 === b.k0 && a.k1 === b.k1 && a.k2 === b.k2 && a.k3 === b.k3
}

function compileShed({ shed, priorities = [] }: RuleSet): CompiledShed | undefined {
  if (shed === undefined || shed.mode === 'off') return undefined
  return {
    loopMs: shed.loopMs,
    least: 1 - shed.most / SHARE_WHOLE,
    isEnforced: shed.mode === 'enforce',
    isKept: priorities.map((name) => shed.keep.includes(name)),
  }
}

/** `clock` is set later, with the overrides, and so is `places` if only an override has them. */
function needsOf(
  set: RuleSet,
  rules: readonly CompiledRule[],
  classifier: Classifier | undefined,
): Needs {
  const lines = classifier?.matches ?? []
  const uses = (attribute: string, some = rules) =>
    some.some(
      ({ rule, conditions }) =>
        rule.by.includes(attribute) ||
        conditions.some((condition) => condition.attribute === attribute) ||
        rule.tiers?.attribute === attribute ||
        rule.candidate?.tiers?.attribute === attribute,
    )
  const usesPath = (some: readonly CompiledRule[]) =>
    some.some((rule) => rule.pattern !== undefined) || uses('path', some)
  const enforced = rules.filter(({ mode }) => mode === 'enforce')
  const classifies = (attribute: string) =>
    lines.some(({ conditions }) =>
      conditions.some((condition) => condition.attribute === attribute),
    )
  const usesRoute = set.routes.length > 0 && (uses('route') || classifies('route'))
  return {
    route: usesRoute,
    method:
      usesRoute ||
      [...rules, ...lines].some(({ methods }) => methods !== undefined) ||
      uses('method'),
    path: usesRoute || usesPath(rules) || lines.some(({ pattern }) => pattern !== undefined),
    goodPath: (usesRoute && uses('route', enforced)) || usesPath(enforced),
    ip: uses('ip') || classifies('ip') || set.shed !== undefined,
    clock: false,
    deadline: enforced.some(({ rule }) => rule.deadlineMs !== undefined),
    hedge: enforced.some(({ rule }) => rule.hedge),
    coordination: rules.some(({ rule }) => rule.coordination !== 'exact'),
    places: rules.some(countsInFlight),
  }
}
