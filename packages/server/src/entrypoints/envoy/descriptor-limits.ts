/**
 * The limits of one domain, ready to decide by: each is a rule with one limit, whose counters are
 * named by domain, path and the values of a request. The numbers of a limit are no part of the
 * name, so a limit that is raised keeps what was used.
 */
import {
  callerHash,
  type CompiledLimit,
  type CompiledRule,
  defineLimit,
  findLimitProblem,
  type Hash64,
  type Limit,
  type LimitSpec,
  type Rule,
  SingleRuleCompiler,
  type SipKey,
  type Snapshot,
} from '@sluice/core'
import type { LimitNode, SelectedLimit } from './config/limit-tree.js'
import type { CurrentLimit, DescriptorEntry, LimitOverride } from './rate-limit-messages.js'
import { attributeNames, limitId, policyName } from './limit-names.js'
import { windowOfUnit } from './limit-units.js'
import type { DomainOptions } from './service-options.js'

/** A request may owe so much before what exceeds it is dropped: more than anybody counts. */
const REFERENCE_DEBT = 999_999_990_000_000
/** Overrides with other numbers are compiled at each use. Envoy has a few, by plan or route. */
const OVERRIDES_MAX = 1000
/** The attribute under which statistics show what an override counts by. */
export const OVERRIDE_ATTRIBUTE = 'descriptor'
const OVERRIDE_BY: readonly string[] = [OVERRIDE_ATTRIBUTE]
/** Texts of one hash: more could be made to equal those that derive keys, which have twelve. */
const HASHED_MAX = 8

/** One limit of a domain. A class, because every descriptor of a request reads it. */
export class DescriptorLimit {
  readonly rule: CompiledRule
  readonly compiled: CompiledLimit
  /** For calls that cannot be delayed. */
  readonly limit: Limit
  /** The limit of a descriptor with an amount of 0. */
  readonly gateLimit: Limit
  /** Units by which the gate's limit is larger. */
  readonly gateMargin: number
  readonly current: CurrentLimit
  /** Whether every descriptor counts first and is compared then. */
  readonly countsFirst: boolean

  constructor(
    rule: CompiledRule,
    compiled: CompiledLimit,
    current: CurrentLimit,
    countsFirst: boolean,
    gateLimit = compiled.immediate,
  ) {
    this.rule = rule
    this.compiled = compiled
    this.limit = compiled.immediate
    this.gateLimit = gateLimit
    this.gateMargin = gateLimit.capacity - compiled.immediate.capacity
    this.current = current
    this.countsFirst = countsFirst
  }
}

export interface DomainLimitsDeps {
  readonly domain: string
  readonly options: DomainOptions
  /** Whether all limits are in shadow. */
  readonly isShadow: boolean
  /** A limit that its algorithm cannot count, and that is counted by fixed windows instead. */
  readonly onInexact: (path: string, problem: string) => void
}

export class DomainLimits {
  /** The key that the counters are named with. */
  readonly secret: SipKey
  readonly #deps: DomainLimitsDeps
  readonly #compiler: SingleRuleCompiler
  readonly #limits = new Map<LimitNode, DescriptorLimit>()
  readonly #overrides = new Map<string, DescriptorLimit>()

  constructor(deps: DomainLimitsDeps, snapshot: Snapshot) {
    this.#deps = deps
    this.secret = snapshot.secret
    this.#compiler = new SingleRuleCompiler(snapshot)
  }

  of({ node }: SelectedLimit): DescriptorLimit {
    const known = this.#limits.get(node)
    if (known !== undefined) return known
    const { limit, path, isShadow } = node
    // The names are part of the counters': those of a request may differ, from node to node.
    const by = attributeNames(node.keys)
    const name = limit.name === '' ? path : limit.name
    const made = this.compile(path, by, name, isShadow, {
      requestsPerUnit: limit.requestsPerUnit,
      unit: limit.unit ?? 'unknown',
      name: limit.name,
    })
    this.#limits.set(node, made)
    return made
  }

  /** The limit that a request brings along; its rule is the same for all of a domain. */
  override({ requestsPerUnit, unit }: LimitOverride): DescriptorLimit {
    const name = `${requestsPerUnit}/${unit}`
    const known = this.#overrides.get(name)
    if (known !== undefined) return known
    const current = { requestsPerUnit, unit, name: '' }
    const made = this.compile(
      `${this.#deps.domain}:override`,
      OVERRIDE_BY,
      'override',
      false,
      current,
    )
    if (this.#overrides.size < OVERRIDES_MAX) this.#overrides.set(name, made)
    return made
  }

  /**
   * The caller of a configured limit: the domain and the values of its counter, with their keys
   * where those are not of the configuration but match a pattern.
   */
  callerOf({ node: { keys }, counter }: SelectedLimit): Hash64 {
    // A literal for the first two: pushing to a list of one allocates eighteen places.
    const values = [this.#deps.domain, valueAt(keys, counter, 0)]
    for (let i = 1; 2 * i < counter.length; i++) values.push(valueAt(keys, counter, i))
    return callerHash(this.secret, values.length <= HASHED_MAX ? values : folded(values))
  }

  /** The caller of an override: all keys and values. */
  callerOfEntries(entries: readonly DescriptorEntry[]): Hash64 {
    const values = [this.#deps.domain]
    for (const { key, value } of entries) values.push(key, value)
    return callerHash(this.secret, values.length <= HASHED_MAX ? values : folded(values))
  }

  private compile(
    path: string,
    by: readonly string[],
    name: string,
    isShadow: boolean,
    current: CurrentLimit,
  ): DescriptorLimit {
    const { options } = this.#deps
    const isReference = options.counting === 'reference'
    const spec = this.specOf(path, current, isReference)
    const mode = isShadow || this.#deps.isShadow ? 'shadow' : 'enforce'
    const rule = ruleOf(path, by, spec, mode, options)
    const compiled = this.#compiler.compile(rule, policyName(name))
    const [limit] = compiled.limits
    if (limit === undefined) throw new RangeError(`${path}: no limit`)
    // envoyproxy/ratelimit refuses what has been counted above the limit, and nothing at it. A
    // limit of 0 counts nothing, and refuses everything.
    const isOpenAtLimit = isReference && spec.max > 0
    const gate = isOpenAtLimit ? defineLimit({ ...spec, max: spec.max + 1, debt: 0 }) : undefined
    return new DescriptorLimit(compiled, limit, current, isReference, gate)
  }

  private specOf(path: string, current: CurrentLimit, isReference: boolean): LimitSpec {
    const { requestsPerUnit: max, unit } = current
    const windowMs = windowOfUnit(unit) ?? 0
    const window: LimitSpec = { algorithm: 'fixed-window', max, windowMs }
    if (isReference) return max === 0 ? window : { ...window, debt: REFERENCE_DEBT }
    const { algorithm = 'fixed-window' } = this.#deps.options
    for (const spec of [
      { ...window, algorithm, debt: max },
      { ...window, algorithm },
    ]) {
      if (findLimitProblem(spec) === undefined) return spec
    }
    const problem = findLimitProblem({ ...window, algorithm })
    if (problem !== undefined) this.#deps.onInexact(path, `${problem.field}: ${problem.found}`)
    return max === 0 ? window : { ...window, debt: max }
  }
}

function ruleOf(
  path: string,
  by: readonly string[],
  limit: LimitSpec,
  mode: 'enforce' | 'shadow',
  { posture = { local: 1 } }: DomainOptions,
): Rule {
  return {
    id: limitId(path),
    description: undefined,
    match: { method: [], path: undefined, where: new Map() },
    by,
    limits: [limit],
    tiers: undefined,
    overrides: [],
    candidate: undefined,
    cost: 1,
    mode,
    coordination: 'exact',
    maxStranded: 0,
    syncEveryMs: 0,
    posture,
    deadlineMs: undefined,
    hedge: false,
    durable: false,
    regions: 'merged',
    tolerance: undefined,
    headroom: undefined,
    protects: undefined,
    onExpiry: 'charge',
    tag: false,
  }
}

/** A value of a counter, with its key where that is not the one of the configuration. */
function valueAt(keys: readonly string[], counter: readonly string[], level: number): string {
  const key = counter[2 * level] ?? ''
  const value = counter[2 * level + 1] ?? ''
  return key === keys[level] ? value : `${key}\u0000${value}`
}

/** As few texts as may be hashed: the last holds all that are left, with their lengths. */
function folded(values: readonly string[]): readonly string[] {
  const kept = values.slice(0, HASHED_MAX - 1)
  const rest = values.slice(HASHED_MAX - 1).map((value) => `${value.length}:${value}`)
  return [...kept, rest.join('')]
}
