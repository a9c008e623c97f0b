/** Turns a rule set into a snapshot: parsed once, then only read. */
import { MESSAGE } from '../call.js'
import { canonicalIp, IPV6_PREFIX_DEFAULT } from '../identity/address.js'
import { type Cidr, parseCidr } from '../identity/cidr.js'
import { callerHash, deriveKey, limitSeed } from '../key.js'
import { defineLimit, type Limit, type LimitSpec, withoutWaiting } from '../limit.js'
import { foldPath, type PathPattern, parsePattern } from '../path.js'
import { leftFieldHead, policyField } from '../policy-field.js'
import type { Match, Override, Rule, RuleSet, Tiers } from '../rules/rule.js'
import type { Hash64, SipKey } from '../sip-hash.js'
import type {
  CompiledLimit,
  CompiledOverride,
  CompiledRule,
  CompiledTiers,
  Condition,
  Needs,
  Snapshot,
} from './compiled.js'
import { compileRoutes } from './routes.js'
import { RuleIndex } from './rule-index.js'

export interface CompileOptions {
  /** The key that hashes callers; nodes that share counters share it. */
  readonly secret: SipKey
  /** How many bits of an IPv6 address make a caller: 32 to 64. */
  readonly ipv6Prefix?: number
}

interface Context {
  readonly secret: SipKey
  /** The key that seeds of limits are hashed with. */
  readonly limitKey: SipKey
  readonly ipv6Prefix: number
  readonly strictPaths: boolean
  readonly limits: Interned<Limit>
  readonly lists: Interned<readonly string[]>
}

/** The rules must have passed `parseRules`; what that refuses throws here. */
export function compileRules(set: RuleSet, options: CompileOptions): Snapshot {
  const { secret, ipv6Prefix = IPV6_PREFIX_DEFAULT } = options
  const context = {
    secret,
    limitKey: deriveKey(secret, 'limit'),
    ipv6Prefix,
    strictPaths: set.strictPaths,
    limits: new Interned<Limit>(),
    lists: new Interned<readonly string[]>(),
  }
  const conditions = set.rules.map(({ match }) => compileConditions(match))
  const variety = countValues(conditions.flat())
  const rules = set.rules.map((rule, order) =>
    compileRule(rule, { order, ...fileConditions(conditions[order] ?? [], variety) }, context),
  )
  const active = rules.filter(({ rule }) => rule.mode !== 'off')
  return {
    rules,
    index: new RuleIndex(active, set.strictPaths),
    needs: needsOf(set, active),
    allNeeds: needsOf(set, rules),
    countsMessages: active.some(({ methods }) => methods?.has(MESSAGE)),
    hasDurable: active.some(({ rule }) => rule.durable),
    strictPaths: set.strictPaths,
    ipv6Prefix,
    secret,
    everybody: callerHash(secret, []),
    routeOf: compileRoutes(set.routes, set.strictPaths),
  }
}

type Place = Pick<CompiledRule, 'order' | 'conditions' | 'filedUnder' | 'rest'>

function compileRule(rule: Rule, place: Place, context: Context): CompiledRule {
  const limits = (specs: readonly LimitSpec[], candidate = false) =>
    compileLimits(specs, rule, { candidate, context })
  const { candidate } = rule
  // What every decision reads comes first, so that it shares a cache line or two.
  return {
    rest: place.rest,
    by: context.lists.intern(rule.by),
    overrides: compileOverrides(rule, context, (specs) => limits(specs)),
    candidate: candidate && {
      limits: limits(candidate.limits, true),
      tiers: compileTiers(candidate.tiers, context, (specs) => limits(specs, true)),
    },
    limits: limits(rule.limits),
    tiers: compileTiers(rule.tiers, context, (specs) => limits(specs)),
    cost: rule.cost,
    mode: rule.mode,
    order: place.order,
    id: rule.id,
    conditions: place.conditions,
    filedUnder: place.filedUnder,
    pattern: rule.match.path === undefined ? undefined : readPattern(rule.match.path),
    methods: compileMethods(rule.match.method),
    rule,
  }
}

/**
 * HEAD asks for what GET serves, without the body: where the one is counted, so is the other, or
 * a limit on GET would be dodged by asking for heads.
 */
function compileMethods(methods: readonly string[]): ReadonlySet<string> | undefined {
  if (methods.length === 0) return undefined
  return new Set(methods.includes('GET') ? [...methods, 'HEAD'] : methods)
}

function compileLimits(
  specs: readonly LimitSpec[],
  { id: rule, by, posture, durable }: Rule,
  { candidate, context }: { readonly candidate: boolean; readonly context: Context },
): readonly CompiledLimit[] {
  return specs.map((spec) => {
    const { limitKey, limits } = context
    const limit = limits.intern(defineLimit(spec))
    const policy = specs.length === 1 ? rule : `${rule}:${limit.name}`
    return {
      rule,
      limit,
      immediate: limits.intern(withoutWaiting(limit)),
      ...limitSeed(limitKey, { rule, name: limit.name, candidate, by }),
      policy,
      field: policyField(policy, limit.capacity, limit.windowMs),
      leftField: leftFieldHead(policy),
      posture,
      durable,
    }
  })
}

type CompileSpecs = (specs: readonly LimitSpec[]) => readonly CompiledLimit[]

function compileTiers(
  tiers: Tiers | undefined,
  context: Context,
  compile: CompileSpecs,
): CompiledTiers | undefined {
  if (tiers === undefined) return undefined
  const { attribute } = tiers
  const limits = [...tiers.limits].map(
    ([value, specs]) => [asCallsHaveIt(attribute, value, context), compile(specs)] as const,
  )
  return { attribute, limits: new Map(limits) }
}

function compileOverrides(
  rule: Rule,
  context: Context,
  compile: CompileSpecs,
): ReadonlyMap<number, readonly CompiledOverride[]> | undefined {
  if (rule.overrides.length === 0) return undefined
  const byCaller = new Map<number, CompiledOverride[]>()
  for (const override of rule.overrides) {
    const caller = callerOf(rule, override, context)
    const index = overrideIndex(callerHash(context.secret, caller))
    const compiled = { caller, limits: compile(override.limits), untilMs: override.untilMs }
    byCaller.set(index, [...(byCaller.get(index) ?? []), compiled])
  }
  return byCaller
}

/** Equal values as one object: rules share most limits, and what is shared stays in the cache. */
class Interned<Value> {
  readonly #known = new Map<string, Value>()

  intern(value: Value): Value {
    const text = JSON.stringify(value)
    const known = this.#known.get(text)
    if (known !== undefined) return known
    this.#known.set(text, value)
    return value
  }
}

function callerOf(rule: Rule, override: Override, context: Context): readonly string[] {
  return rule.by.map((attribute) =>
    asCallsHaveIt(attribute, override.caller.get(attribute) ?? '', context),
  )
}

/** A value in the form that a call's own is read in: whichever way it is written, it is one. */
function asCallsHaveIt(attribute: string, value: string, context: Context): string {
  if (attribute === 'method') return value.toUpperCase()
  if (attribute === 'path') return context.strictPaths ? value : foldPath(value)
  return attribute === 'ip' ? (canonicalIp(value, context.ipv6Prefix) ?? value) : value
}

/** A caller's place among the overrides: 53 bits of its hash, which a double holds exactly. */
export function overrideIndex(caller: Hash64): number {
  return (caller.hi & 0x1fffff) * 2 ** 32 + (caller.lo >>> 0)
}

const NO_CONDITION: readonly Condition[] = []

function compileConditions({ where }: Match): readonly Condition[] {
  if (where.size === 0) return NO_CONDITION
  return [...where].map(([attribute, values]) => compileCondition(attribute, values))
}

/** How many values each attribute is compared with: the more, the better it tells rules apart. */
function countValues(conditions: readonly Condition[]): ReadonlyMap<string, number> {
  const values = new Map<string, Set<string>>()
  for (const condition of conditions) {
    const seen = values.get(condition.attribute) ?? new Set()
    for (const value of condition.values ?? []) seen.add(value)
    values.set(condition.attribute, seen)
  }
  return new Map([...values].map(([attribute, seen]) => [attribute, seen.size]))
}

/** A rule is filed under the values of its most telling attribute, else under its networks. */
function fileConditions(
  conditions: readonly Condition[],
  variety: ReadonlyMap<string, number>,
): Omit<Place, 'order'> {
  const [telling] = conditions
    .filter(({ values }) => values !== undefined)
    .toSorted((a, b) => (variety.get(b.attribute) ?? 0) - (variety.get(a.attribute) ?? 0))
  const filedUnder = telling ?? conditions.find(({ cidrs }) => cidrs !== undefined)
  const rest = conditions.filter((condition) => condition !== filedUnder)
  return { conditions, filedUnder, rest: rest.length === 0 ? NO_CONDITION : rest }
}

function compileCondition(attribute: string, values: readonly string[] | null): Condition {
  if (values === null) return { attribute, values: undefined, cidrs: undefined }
  if (attribute !== 'ip') return { attribute, values: new Set(values), cidrs: undefined }
  return { attribute, values: undefined, cidrs: values.map(readCidr) }
}

function readPattern(text: string): PathPattern {
  const pattern = parsePattern(text)
  if ('problem' in pattern) throw new RangeError(`match.path: ${pattern.problem}`)
  return pattern
}

function readCidr(text: string): Cidr {
  const cidr = parseCidr(text)
  if ('problem' in cidr) throw new RangeError(`where.ip: ${cidr.problem}`)
  return cidr
}

function needsOf(set: RuleSet, rules: readonly CompiledRule[]): Needs {
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
  const usesRoute = set.routes.length > 0 && uses('route')
  return {
    route: usesRoute,
    method: usesRoute || rules.some((rule) => rule.methods !== undefined) || uses('method'),
    path: usesRoute || usesPath(rules),
    goodPath: (usesRoute && uses('route', enforced)) || usesPath(enforced),
    ip: uses('ip'),
    clock: rules.some(({ rule }) => rule.overrides.some(({ untilMs }) => untilMs !== undefined)),
    deadline: enforced.some(({ rule }) => rule.deadlineMs !== undefined),
    hedge: enforced.some(({ rule }) => rule.hedge),
  }
}
