/** Turns a rule set into a snapshot: parsed once, then only read. */
import { canonicalIp, IPV6_PREFIX_DEFAULT } from '../identity/address.js'
import { type Cidr, parseCidr } from '../identity/cidr.js'
import { callerHash, limitSeed } from '../key.js'
import { defineLimit, type LimitSpec, withoutWaiting } from '../limit.js'
import { foldPath, type PathPattern, parsePattern } from '../path.js'
import type { Override, Rule, RuleSet, Tiers } from '../rules/rule.js'
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

/** The rules must have passed `parseRules`; what that refuses throws here. */
export function compileRules(set: RuleSet, options: CompileOptions): Snapshot {
  const { secret, ipv6Prefix = IPV6_PREFIX_DEFAULT } = options
  const rules = set.rules.map((rule, order) => compileRule(rule, order, { secret, ipv6Prefix }))
  const active = rules.filter(({ rule }) => rule.mode !== 'off')
  return {
    rules,
    index: new RuleIndex(active, set.strictPaths),
    needs: needsOf(set, active),
    strictPaths: set.strictPaths,
    ipv6Prefix,
    secret,
    routeOf: compileRoutes(set.routes, set.strictPaths),
  }
}

function compileRule(rule: Rule, order: number, options: Required<CompileOptions>): CompiledRule {
  const limits = (specs: readonly LimitSpec[], candidate = false) =>
    compileLimits(specs, { rule: rule.id, candidate, secret: options.secret })
  const { candidate } = rule
  return {
    rule,
    order,
    pattern: rule.match.path === undefined ? undefined : readPattern(rule.match.path),
    methods: rule.match.method.length === 0 ? undefined : new Set(rule.match.method),
    conditions: [...rule.match.where].map(([attribute, values]) =>
      compileCondition(attribute, values),
    ),
    limits: limits(rule.limits),
    tiers: compileTiers(rule.tiers, (specs) => limits(specs)),
    overrides: compileOverrides(rule, options, (specs) => limits(specs)),
    candidate: candidate && {
      limits: limits(candidate.limits, true),
      tiers: compileTiers(candidate.tiers, (specs) => limits(specs, true)),
    },
  }
}

function compileLimits(
  specs: readonly LimitSpec[],
  owner: { readonly rule: string; readonly candidate: boolean; readonly secret: SipKey },
): readonly CompiledLimit[] {
  return specs.map((spec) => {
    const limit = defineLimit(spec)
    return {
      rule: owner.rule,
      limit,
      immediate: withoutWaiting(limit),
      seed: limitSeed(owner.secret, { ...owner, name: limit.name }),
      policy: specs.length === 1 ? owner.rule : `${owner.rule}:${limit.name}`,
    }
  })
}

type CompileSpecs = (specs: readonly LimitSpec[]) => readonly CompiledLimit[]

function compileTiers(tiers: Tiers | undefined, compile: CompileSpecs): CompiledTiers | undefined {
  if (tiers === undefined) return undefined
  const limits = new Map([...tiers.limits].map(([value, specs]) => [value, compile(specs)]))
  return { attribute: tiers.attribute, limits }
}

function compileOverrides(
  rule: Rule,
  { secret, ipv6Prefix }: Required<CompileOptions>,
  compile: CompileSpecs,
): ReadonlyMap<number, readonly CompiledOverride[]> {
  const byCaller = new Map<number, CompiledOverride[]>()
  for (const override of rule.overrides) {
    const caller = callerOf(rule, override, ipv6Prefix)
    const index = overrideIndex(callerHash(secret, caller))
    const compiled = { caller, limits: compile(override.limits), untilMs: override.untilMs }
    byCaller.set(index, [...(byCaller.get(index) ?? []), compiled])
  }
  return byCaller
}

/** As a call's own values are read: whichever way an address is written, it is one caller. */
function callerOf(rule: Rule, override: Override, ipv6Prefix: number): readonly string[] {
  return rule.by.map((attribute) => {
    const value = override.caller.get(attribute) ?? ''
    if (attribute === 'method') return value.toUpperCase()
    if (attribute === 'path') return foldPath(value)
    return attribute === 'ip' ? (canonicalIp(value, ipv6Prefix) ?? value) : value
  })
}

/** A caller's place among the overrides: 53 bits of its hash, which a double holds exactly. */
export function overrideIndex(caller: Hash64): number {
  return (caller.hi & 0x1fffff) * 2 ** 32 + (caller.lo >>> 0)
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
  const uses = (attribute: string) =>
    rules.some(
      ({ rule, conditions }) =>
        rule.by.includes(attribute) ||
        conditions.some((condition) => condition.attribute === attribute) ||
        rule.tiers?.attribute === attribute ||
        rule.candidate?.tiers?.attribute === attribute,
    )
  return {
    method:
      set.routes.length > 0 || rules.some((rule) => rule.methods !== undefined) || uses('method'),
    path: set.routes.length > 0 || rules.some((rule) => rule.pattern !== undefined) || uses('path'),
    ip: uses('ip'),
    clock: rules.some(({ rule }) => rule.overrides.some(({ untilMs }) => untilMs !== undefined)),
  }
}
