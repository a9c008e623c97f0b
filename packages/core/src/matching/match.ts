/** Finds the rules that match a call, with the caller and the limits of each. */
import { ATTRIBUTE_LENGTH_MAX, type Call, isMessage } from '../call.js'
import { SluiceError } from '../errors.js'
import { cidrContains } from '../identity/cidr.js'
import { callerHash } from '../key.js'
import type { Hash64 } from '../sip-hash.js'
import type { CompiledLimit, CompiledRule, CompiledTiers, Condition, Snapshot } from './compiled.js'
import { type NormalizedCall, readNormalized, normalizeCall } from './call-view.js'
import { findOverride } from './find-override.js'
import type { CompiledOverride } from './override-index.js'
import { RouteCandidates, readsRoute } from './route-candidates.js'

export interface MatchedRule {
  readonly rule: CompiledRule
  /** Empty for a tier or an override without a limit. */
  readonly limits: readonly CompiledLimit[]
  /** The limits of the candidate; undefined if there is none or an override applies. */
  readonly candidate: readonly CompiledLimit[] | undefined
  readonly caller: Hash64
  /** The override that the limits come from, if one applies. */
  readonly override: CompiledOverride | undefined
  /** The normalized call; one object for all matching rules. */
  readonly view: NormalizedCall
}

/**
 * Returns all matching rules in the order of the set. `wallMs` decides which overrides have ended;
 * without it none has. `view` is the normalized call, if it is known already.
 */
export function matchRules(
  snapshot: Snapshot,
  call: Call,
  wallMs = 0,
  view = normalizeCall(snapshot, call.attributes),
): readonly MatchedRule[] {
  const found = snapshot.index.find(view)
  const isOfSocket = isMessage(call.attributes)
  let matched = NO_MATCH
  for (let i = 0; i < found.length; i++) {
    const rule = found[i]
    if (rule === undefined || !conditionsHold(rule.rest, view)) continue
    if (isOfSocket && rule.methods === undefined) continue
    const values = callerValues(rule, view)
    if (values === undefined) continue
    const match = matchCaller(snapshot, rule, view, values, matched, wallMs)
    // A list of one is a literal: most calls match one rule, and pushing to an empty list allocates
    // seventeen slots.
    if (matched === NO_MATCH) matched = [match]
    else matched.push(match)
  }
  return matched
}

const NO_MATCH: MatchedRule[] = []

export interface CallerRule extends MatchedRule {
  /** The route of the counter, if the rule counts by `route`. */
  readonly route: string | undefined
}

/**
 * Returns every enforced rule that counts this caller, whatever its method and path: the answer to
 * a caller that requests its limits. A rule that counts by `route` is listed once for each route
 * that its calls may take, after all others, unless the call names a route or a path that has one.
 * Stops at `limitsMax` limits.
 */
export function rulesOfCaller(
  snapshot: Snapshot,
  call: Call,
  wallMs: number,
  limitsMax: number,
): readonly CallerRule[] {
  const view = normalizeCall({ ...snapshot, needs: snapshot.allNeeds }, call.attributes)
  const route = readNormalized(view, 'route')
  const callerRules: CallerRule[] = []
  const byRoute: CompiledRule[] = []
  let limits = 0
  for (const rule of snapshot.rules) {
    // How busy a service is, is no limit of its caller.
    if (rule.mode !== 'enforce' || rule.rule.protects !== undefined) continue
    if (route === undefined && readsRoute(rule)) {
      byRoute.push(rule)
      continue
    }
    const found = callerRuleOf(snapshot, rule, view, wallMs)
    if (found === undefined) continue
    callerRules.push(found)
    limits += found.limits.length
  }
  const candidates = new RouteCandidates(snapshot)
  for (const rule of byRoute) {
    if (limits >= limitsMax) break
    const found = callerRulesByRoute(snapshot, rule, view, candidates, wallMs)
    for (const each of found) limits += each.limits.length
    callerRules.push(...found)
  }
  return callerRules
}

/** Returns one entry per route, or a single one if the rule has one counter for all routes. */
function callerRulesByRoute(
  snapshot: Snapshot,
  rule: CompiledRule,
  view: NormalizedCall,
  candidates: RouteCandidates,
  wallMs: number,
): readonly CallerRule[] {
  const others = rule.conditions.filter(({ attribute }) => attribute !== 'route')
  if (!conditionsHold(others, view)) return []
  const isCounted = rule.by.includes('route')
  const found: CallerRule[] = []
  for (const route of [undefined, ...candidates.routesOf(rule)]) {
    const each = callerRuleOf(snapshot, rule, { ...view, route }, wallMs)
    if (each === undefined) continue
    // Tiers by route give one caller different limits.
    if (isCounted || !found.some(({ limits }) => limits === each.limits)) found.push(each)
  }
  return found
}

function callerRuleOf(
  snapshot: Snapshot,
  rule: CompiledRule,
  view: NormalizedCall,
  wallMs: number,
): CallerRule | undefined {
  if (!conditionsHold(rule.conditions, view)) return undefined
  const values = callerValues(rule, view)
  if (values === undefined) return undefined
  const match = matchCaller(snapshot, rule, view, values, NO_MATCH, wallMs)
  const route = rule.by.includes('route') ? readNormalized(view, 'route') : undefined
  return { ...match, candidate: undefined, route }
}

/**
 * Returns the caller that a rule would count for these attributes, whether or not it matches;
 * undefined if an attribute is absent.
 */
export function callerOf(snapshot: Snapshot, rule: CompiledRule, call: Call): Hash64 | undefined {
  const view = normalizeCall({ ...snapshot, needs: snapshot.allNeeds }, call.attributes)
  const values = callerValues(rule, view)
  return values && callerHash(snapshot.secret, values)
}

function matchCaller(
  snapshot: Snapshot,
  rule: CompiledRule,
  view: NormalizedCall,
  values: readonly string[],
  before: readonly MatchedRule[],
  wallMs: number,
): MatchedRule {
  const caller =
    values.length === 0
      ? snapshot.everybody
      : (hashBefore(rule, before) ?? callerHash(snapshot.secret, values))
  if (snapshot.overrides !== undefined) {
    const override = findOverride(snapshot, rule, { view, values, caller }, wallMs)
    if (override !== undefined)
      return new RuleMatch(rule, override.limits, undefined, caller, override, view)
  }
  const candidate = rule.candidate && tierLimits(rule.candidate, view)
  return new RuleMatch(rule, tierLimits(rule, view), candidate, caller, undefined, view)
}

/** A class, not an object literal, because it lives while a call waits: see sip-hash.ts. */
class RuleMatch implements MatchedRule {
  readonly rule: CompiledRule
  readonly limits: readonly CompiledLimit[]
  readonly candidate: readonly CompiledLimit[] | undefined
  readonly caller: Hash64
  readonly override: CompiledOverride | undefined
  readonly view: NormalizedCall

  constructor(
    rule: CompiledRule,
    limits: readonly CompiledLimit[],
    candidate: readonly CompiledLimit[] | undefined,
    caller: Hash64,
    override: CompiledOverride | undefined,
    view: NormalizedCall,
  ) {
    this.rule = rule
    this.limits = limits
    this.candidate = candidate
    this.caller = caller
    this.override = override
    this.view = view
  }
}

/**
 * Reuses the caller hash of an earlier rule that counts by the same attributes (the same list
 * object).
 */
function hashBefore(rule: CompiledRule, before: readonly MatchedRule[]): Hash64 | undefined {
  for (let i = 0; i < before.length; i++) {
    const earlier = before[i]
    if (earlier !== undefined && earlier.rule.by === rule.by) return earlier.caller
  }
  return undefined
}

function callerValues(rule: CompiledRule, view: NormalizedCall): readonly string[] | undefined {
  const { by } = rule
  const first = by[0]
  if (first === undefined) return by
  const value = callerValue(rule, view, first)
  if (value === undefined) return undefined
  const values = [value]
  for (let i = 1; i < by.length; i++) {
    const next = callerValue(rule, view, by[i] ?? '')
    if (next === undefined) return undefined
    values.push(next)
  }
  return values
}

function callerValue(
  rule: CompiledRule,
  view: NormalizedCall,
  attribute: string,
): string | undefined {
  const value = readNormalized(view, attribute)
  if (value === undefined || value.length <= ATTRIBUTE_LENGTH_MAX) return value
  // A rule that is in shadow or off never makes a call fail.
  if (rule.mode !== 'enforce') return undefined
  throw new SluiceError(
    'CALL_ATTRIBUTE_TOO_LONG',
    `attribute ${attribute}: found ${value.length} characters; accepted: up to ${ATTRIBUTE_LENGTH_MAX}`,
  )
}

function tierLimits(
  from: { readonly limits: readonly CompiledLimit[]; readonly tiers: CompiledTiers | undefined },
  view: NormalizedCall,
): readonly CompiledLimit[] {
  if (from.tiers === undefined) return from.limits
  const value = readNormalized(view, from.tiers.attribute)
  return (value === undefined ? undefined : from.tiers.limits.get(value)) ?? from.limits
}

function conditionsHold(conditions: readonly Condition[], view: NormalizedCall): boolean {
  for (let i = 0; i < conditions.length; i++) {
    const condition = conditions[i]
    if (condition !== undefined && !conditionHolds(condition, view)) return false
  }
  return true
}

export function conditionHolds(condition: Condition, view: NormalizedCall): boolean {
  const { attribute, isExcluding, values, cidrs } = condition
  if (cidrs !== undefined) {
    const { address } = view
    // Text that is not an address is in no network, so that an exclusion cannot be met by nonsense.
    const isWithin = address !== undefined && cidrs.some((cidr) => cidrContains(cidr, address))
    return isWithin !== isExcluding
  }
  const value = readNormalized(view, attribute)
  if (values === undefined) return value === undefined
  return (value !== undefined && values.has(value)) !== isExcluding
}
