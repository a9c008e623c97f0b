/**
 * Compiles overrides: those written in a rule, and standalone ones, which are stored separately and
 * change independently.
 */
import { callerHash } from '../key.js'
import type { Override, Rule } from '../rules/rule.js'
import type { Hash64 } from '../sip-hash.js'
import { canonicalValue } from './compile-limits.js'
import type { CompiledLimit, CompiledRule, Snapshot } from './compiled.js'
import { networkOfCaller } from './find-override.js'
import { CompiledOverride, isSameList, OverrideIndex, type Removal } from './override-index.js'
import { withOverrides } from './compiled-snapshot.js'
import { isSameRegion } from './region-limits.js'

/** A standalone override or its removal. */
export interface OverrideChange {
  /** The id of the rule. */
  readonly rule: string
  /** A value for every attribute of the rule's `by`. */
  readonly caller: ReadonlyMap<string, string>
  /** Undefined removes the override. */
  readonly override: Override | undefined
}

/** A caller of a rule whose override changed. */
export interface ChangedCaller {
  readonly rule: CompiledRule
  readonly caller: Hash64
  /** Whether it is a network, so that the limits of every caller in it changed. */
  readonly isNetwork: boolean
}

type Scope = Pick<
  Snapshot,
  'secret' | 'limitKey' | 'strictPaths' | 'ipv6Prefix' | 'classifier' | 'region'
>
type Indexes = readonly (OverrideIndex | undefined)[]

/**
 * Returns a snapshot with these changes that shares all else. A change for an unknown rule, or for
 * a caller that the rule does not count, is ignored. A standalone override takes precedence over
 * that of the rule itself for the caller.
 */
export function changeOverrides(
  snapshot: Snapshot,
  changes: readonly OverrideChange[],
): { readonly snapshot: Snapshot; readonly callers: readonly ChangedCaller[] } {
  const byRule = compileChanges(snapshot, changes)
  if (byRule.size === 0) return { snapshot, callers: [] }
  const indexes = snapshot.overrides?.slice() ?? snapshot.rules.map(() => undefined)
  for (const [{ order }, list] of byRule) {
    indexes[order] = indexOf(list, indexes[order])
  }
  const callers = [...byRule].flatMap(([rule, list]) =>
    list.map((change) => ({
      rule,
      caller: 'hash' in change ? change.hash : change,
      isNetwork: change.network !== undefined,
    })),
  )
  return { snapshot: withOverrides(snapshot, indexes), callers }
}

/** The same, but removes all earlier standalone overrides. */
export function replaceOverrides(snapshot: Snapshot, all: Iterable<OverrideChange>): Snapshot {
  const byRule = compileChanges(snapshot, all)
  const indexes = snapshot.rules.map((rule) =>
    indexOf([...compileRuleOverrides(rule, snapshot), ...(byRule.get(rule) ?? [])]),
  )
  return withOverrides(snapshot, indexes)
}

/**
 * Returns the limits that overrides, ended or not, may give the caller of a hash. A hash does not
 * reveal which networks contain the caller, so those of all networks are included.
 */
export function overrideLimitsOf(
  snapshot: Snapshot,
  rule: CompiledRule,
  caller: Hash64,
): readonly CompiledLimit[] {
  const index = snapshot.overrides?.[rule.order]
  if (index === undefined) return []
  return [...index.allFor(caller).flatMap(({ limits }) => limits), ...index.networkLimits]
}

/**
 * Returns the overrides of a new set of rules: those written in them, and the standalone ones whose
 * rule still exists and counts by the same attributes.
 */
export function carryOverrides(
  rules: readonly CompiledRule[],
  scope: Scope,
  before: Snapshot | undefined,
): Indexes {
  const isSameScope = before !== undefined && hasSameScope(scope, before)
  return rules.map((rule) => {
    const earlier = before?.byId.get(rule.id)
    const index = earlier && before?.overrides?.[earlier.order]
    if (earlier === undefined || index === undefined || !isSameList(earlier.by, rule.by)) {
      return indexOf(compileRuleOverrides(rule, scope))
    }
    if (isSameScope && staysCompiled(earlier.rule, rule.rule)) return index
    const standalone = index.all().filter(({ isStandalone }) => isStandalone)
    const again = standalone.map((override) => compileOverride(rule, override, scope))
    return indexOf([...compileRuleOverrides(rule, scope), ...again])
  })
}

/** The names of a set's priorities, the most important first. */
export function prioritiesOf({ classifier }: Pick<Snapshot, 'classifier'>): readonly string[] {
  return classifier?.priorities.map(({ name }) => name) ?? []
}

function hasSameScope(a: Scope, b: Scope): boolean {
  return (
    a.limitKey === b.limitKey &&
    a.strictPaths === b.strictPaths &&
    a.ipv6Prefix === b.ipv6Prefix &&
    isSameRegion(a.region, b.region) &&
    isSameList(prioritiesOf(a), prioritiesOf(b))
  )
}

/**
 * Whether overrides compiled for one rule are valid for the other, which counts by the same
 * attributes.
 */
function staysCompiled(before: Rule, after: Rule): boolean {
  if (before === after) return true
  return (
    before.overrides.length === 0 &&
    after.overrides.length === 0 &&
    before.durable === after.durable &&
    before.coordination === after.coordination &&
    before.maxStranded === after.maxStranded &&
    before.syncEveryMs === after.syncEveryMs &&
    before.regions === after.regions &&
    before.protects === after.protects &&
    hasSameHeadroom(before, after) &&
    JSON.stringify(before.posture) === JSON.stringify(after.posture)
  )
}

function hasSameHeadroom({ headroom: a }: Rule, { headroom: b }: Rule): boolean {
  return JSON.stringify([...(a ?? [])]) === JSON.stringify([...(b ?? [])])
}

type CompiledChange = CompiledOverride | Removal

function compileChanges(
  snapshot: Snapshot,
  changes: Iterable<OverrideChange>,
): ReadonlyMap<CompiledRule, readonly CompiledChange[]> {
  const byRule = new Map<CompiledRule, CompiledChange[]>()
  for (const { rule: id, caller, override } of changes) {
    const rule = snapshot.byId.get(id)
    const writtenCaller = rule && writtenCallerOf(rule.by, caller)
    if (rule === undefined || writtenCaller === undefined) continue
    const compiled = compileChange(rule, writtenCaller, override, snapshot)
    const list = byRule.get(rule)
    if (list === undefined) byRule.set(rule, [compiled])
    else list.push(compiled)
  }
  return byRule
}

function compileChange(
  rule: CompiledRule,
  writtenCaller: readonly string[],
  override: Override | undefined,
  scope: Scope,
): CompiledChange {
  if (override === undefined) {
    const caller = canonicalCaller(rule.by, writtenCaller, scope)
    const network = networkOfCaller(rule.by, caller, scope.ipv6Prefix)
    return { hash: callerHash(scope.secret, caller), network, writtenCaller }
  }
  const { limits: specs, untilMs = Infinity } = override
  return compileOverride(rule, { writtenCaller, specs, untilMs, isStandalone: true }, scope)
}

/** Compiles the overrides that a rule itself has. */
function compileRuleOverrides(rule: CompiledRule, scope: Scope): readonly CompiledOverride[] {
  return rule.rule.overrides.map(({ caller, limits: specs, untilMs = Infinity }) => {
    const source = { writtenCaller: valuesOf(rule.by, caller), specs, untilMs, isStandalone: false }
    return compileOverride(rule, source, scope)
  })
}

type OverrideSource = Pick<CompiledOverride, 'writtenCaller' | 'specs' | 'untilMs' | 'isStandalone'>

function compileOverride(
  rule: CompiledRule,
  source: OverrideSource,
  scope: Scope,
): CompiledOverride {
  const { writtenCaller, untilMs, isStandalone } = source
  const values = canonicalCaller(rule.by, writtenCaller, scope)
  // Most callers are written in normalized form, and then one list serves as both.
  const caller = isSameList(values, writtenCaller) ? writtenCaller : values
  const { specs, limits } = rule.overrideLimits.get(source.specs)
  const hash = callerHash(scope.secret, caller)
  const network = networkOfCaller(rule.by, caller, scope.ipv6Prefix)
  return new CompiledOverride(hash, {
    caller,
    network,
    limits,
    untilMs,
    isStandalone,
    writtenCaller,
    specs,
  })
}

function canonicalCaller(
  by: readonly string[],
  writtenCaller: readonly string[],
  scope: Scope,
): readonly string[] {
  return writtenCaller.map((value, i) => canonicalValue(by[i] ?? '', value, scope))
}

/** Returns the values in the order of `by`; undefined if the attributes differ from it. */
function writtenCallerOf(
  by: readonly string[],
  caller: ReadonlyMap<string, string>,
): readonly string[] | undefined {
  if (caller.size !== by.length) return undefined
  for (const attribute of by) if (!caller.has(attribute)) return undefined
  return valuesOf(by, caller)
}

/** Not pushed one by one: an empty list grows to seventeen slots, for each of 100,000. */
function valuesOf(by: readonly string[], caller: Override['caller']): readonly string[] {
  return by.map((attribute) => caller.get(attribute) ?? '')
}

/** Returns undefined for an empty index. */
function indexOf(
  changes: readonly CompiledChange[],
  before = OverrideIndex.EMPTY,
): OverrideIndex | undefined {
  const index = changes.length === 0 ? before : before.with(changes)
  return index.size === 0 ? undefined : index
}
