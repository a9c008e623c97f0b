/** Compiles limits for decisions: with their arithmetic, their seeds and their header text. */
import { canonicalIp, groupAddress } from '../identity/address.js'
import { isOneAddress, parseCidr } from '../identity/cidr.js'
import { limitSeed } from '../key.js'
import { defineBlock } from '../algorithms/block.js'
import { isConcurrency } from '../algorithms/concurrency.js'
import { algorithmOf, canCoordinate } from '../algorithms/index.js'
import {
  defineLimit,
  findLimitProblem,
  type Limit,
  type LimitSpec,
  withoutWaiting,
} from '../limit.js'
import { foldPath } from '../path.js'
import { leftFieldHead, policyField } from '../policy-field.js'
import type { Coordination, Cost, Rule, Tiers } from '../rules/rule.js'
import type { SipKey } from '../sip-hash.js'
import { withCeilings } from './ceilings.js'
import { type CompiledRegion, mergedLimit, regionModeOf, regionSpec } from './region-limits.js'
import type { CompiledLimit, CompiledTiers, Snapshot } from './compiled.js'

/**
 * Interns equal values as one object: rules share most limits, and shared objects stay in the CPU
 * cache.
 */
export class InternPool<Value> {
  readonly #existing = new Map<string, Value>()

  intern(value: Value): Value {
    const text = JSON.stringify(value)
    const existing = this.#existing.get(text)
    if (existing !== undefined) return existing
    this.#existing.set(text, value)
    return value
  }
}

export interface LimitContext {
  /** The key that seeds of limits are hashed with. */
  readonly limitKey: SipKey
  readonly limits: InternPool<Limit>
  /** Of the set, the most important first. */
  readonly priorities: readonly string[]
  /** Undefined if there is only one. */
  readonly region: CompiledRegion | undefined
}

export function compileLimits(
  specs: readonly LimitSpec[],
  source: Rule,
  { limitKey, limits, priorities, region }: LimitContext,
  candidate = false,
): readonly CompiledLimit[] {
  const { id: rule, by, posture, durable, coordination, maxStranded, syncEveryMs } = source
  const { headroom } = source
  const sheds = source.protects === 'capacity'
  return specs.map((spec) => {
    const limit = limits.intern(regionalLimit(spec, source, region))
    const policy = specs.length === 1 ? rule : `${rule}:${limit.name}`
    const compiled: CompiledLimit = {
      rule,
      limit,
      immediate: limits.intern(withoutWaiting(limit)),
      ...limitSeed(limitKey, { rule, name: limit.name, candidate, by }),
      policy,
      field: sheds ? '' : policyField(policy, limit),
      leftField: sheds ? '' : leftFieldHead(policy),
      posture,
      durable,
      isPlaces: isConcurrency(limit),
      isOrdinary: !durable && !isConcurrency(limit) && limit.onRefusal !== 'overdraw',
      sheds,
      coordination: spec.block === undefined ? coordinationOf(limit, coordination) : 'exact',
      maxStranded,
      syncEveryMs,
      block: spec.block && {
        limit: limits.intern(defineBlock(limit.name, spec.block)),
        // A limit's name has no colon, so no limit has this seed.
        ...limitSeed(limitKey, { rule, name: `${limit.name}:block`, candidate, by }),
      },
      ceilings: undefined,
      ceiling: undefined,
    }
    if (headroom === undefined || priorities.length === 0) return compiled
    return withCeilings(compiled, headroom, priorities, (each) => limits.intern(each))
  })
}

/** Prepares a limit as the own region has it. */
function regionalLimit(spec: LimitSpec, rule: Rule, region: CompiledRegion | undefined): Limit {
  const mode = region === undefined ? 'apart' : regionModeOf(spec, rule)
  const own = region === undefined || mode !== 'split' ? spec : regionSpec(spec, region)
  const limit = defineLimit(withDefaultDebt(own, rule.cost))
  return region === undefined || mode !== 'merged' ? limit : mergedLimit(limit, region.count)
}

/**
 * Lets a limit owe one `max` if an attribute says what calls cost: a cost that is known afterwards
 * may exceed what was reserved for it. Not if the limit cannot owe, or could then not be counted in
 * ticks as fine as without.
 */
function withDefaultDebt(spec: LimitSpec, cost: Cost): LimitSpec {
  if (typeof cost === 'number' || spec.debt !== undefined || spec.max === 0) return spec
  const owing = { ...spec, debt: spec.max }
  if (findLimitProblem(owing) !== undefined) return spec
  return defineLimit(owing).tickUs === defineLimit(spec).tickUs ? owing : spec
}

/**
 * Returns the coordination of one limit without a block. Only the store charges refusals, and a
 * standalone override may have an algorithm that the rule's later coordination does not support;
 * both are exact.
 */
function coordinationOf(limit: Limit, coordination: Coordination): Coordination {
  if (limit.onRefusal !== 'none') return 'exact'
  return canCoordinate(algorithmOf(limit), coordination) ? coordination : 'exact'
}

export function compileTiers(
  tiers: Tiers | undefined,
  options: CanonicalOptions,
  compile: (specs: readonly LimitSpec[]) => readonly CompiledLimit[],
): CompiledTiers | undefined {
  if (tiers === undefined) return undefined
  const { attribute } = tiers
  const limits = [...tiers.limits].map(
    ([value, specs]) => [canonicalValue(attribute, value, options), compile(specs)] as const,
  )
  return { attribute, limits: new Map(limits) }
}

/** The options by which values of calls are normalized. */
export type CanonicalOptions = Pick<Snapshot, 'strictPaths' | 'ipv6Prefix'>

/** Normalizes a value in the same way as those of calls, so that all spellings are equal. */
export function canonicalValue(
  attribute: string,
  value: string,
  options: CanonicalOptions,
): string {
  if (attribute === 'method') return value.toUpperCase()
  if (attribute === 'path') return options.strictPaths ? value : foldPath(value)
  return attribute === 'ip' ? canonicalIpValue(value, options.ipv6Prefix) : value
}

/** Returns an address by its network, a network in canonical form, and any other text unchanged. */
function canonicalIpValue(value: string, ipv6Prefix: number): string {
  const counted = canonicalIp(value, ipv6Prefix)
  if (counted !== undefined) return counted
  const network = parseCidr(value)
  if ('problem' in network) return value
  return isOneAddress(network) ? groupAddress(network, ipv6Prefix) : network.text
}
