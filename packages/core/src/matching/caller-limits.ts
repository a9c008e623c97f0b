/**
 * Describes a caller under a rule: its attributes, and the limits that apply to it. For the admin
 * API.
 */
import { ATTRIBUTE_LENGTH_MAX, type Call } from '../call.js'
import { SluiceError } from '../errors.js'
import { callerHash } from '../key.js'
import { tierField } from '../rules/diff-fields.js'
import type { Hash64 } from '../sip-hash.js'
import type { CompiledLimit, CompiledRule, CompiledTiers, Snapshot } from './compiled.js'
import { type NormalizedCall, readNormalized, normalizeCall } from './call-view.js'
import { findOverride } from './find-override.js'
import { matchRules } from './match.js'

export interface NamedCaller {
  readonly rule: CompiledRule
  readonly caller: Hash64
  /** The normalized value of each attribute that the rule counts by. */
  readonly values: ReadonlyMap<string, string>
}

export interface CallerLimits extends NamedCaller {
  /** The active limits, then those of the candidate. */
  readonly places: readonly {
    /** `limits`, `tiers.plan.pro`, `override`, `override of 10.0.0.0/8`, `candidate.limits`. */
    readonly where: string
    readonly limits: readonly CompiledLimit[]
  }[]
}

/**
 * Returns the limits of a caller, whether or not the rule matches the call and whatever its mode:
 * only the attributes that it counts by are needed. Throws if one is absent.
 */
export function limitsOfCaller(
  snapshot: Snapshot,
  rule: CompiledRule,
  call: Call,
  wallMs: number,
): CallerLimits {
  const goodPath = rule.by.includes('path') || rule.by.includes('route')
  const needs = { ...snapshot.allNeeds, goodPath }
  const view = normalizeCall({ ...snapshot, needs }, call.attributes)
  const values = requireValues(rule, view)
  const texts = [...values.values()]
  const caller = callerHash(snapshot.secret, texts)
  const override = findOverride(snapshot, rule, { view, values: texts, caller }, wallMs)
  if (override !== undefined) {
    const network =
      override.network === undefined ? '' : ` of ${override.caller[rule.by.indexOf('ip')]}`
    return {
      rule,
      caller,
      values,
      places: [{ where: `override${network}`, limits: override.limits }],
    }
  }
  const { candidate } = rule
  const candidateLimits = candidate === undefined ? [] : [placeOf(candidate, view, 'candidate.')]
  return { rule, caller, values, places: [placeOf(rule, view, ''), ...candidateLimits] }
}

/** Returns the caller of a call for each rule that it matches. */
export function callersOf(snapshot: Snapshot, call: Call, wallMs: number): readonly NamedCaller[] {
  const matched = matchRules(snapshot, call, wallMs)
  const view = normalizeCall(snapshot, call.attributes)
  return matched.map(({ rule, caller }) => ({ rule, caller, values: valuesOf(rule, view) }))
}

function valuesOf({ by }: CompiledRule, view: NormalizedCall): ReadonlyMap<string, string> {
  return new Map(by.map((attribute) => [attribute, readNormalized(view, attribute) ?? '']))
}

function requireValues(rule: CompiledRule, view: NormalizedCall): ReadonlyMap<string, string> {
  const values = valuesOf(rule, view)
  for (const [attribute, value] of values) {
    if (value === '') {
      throw new SluiceError(
        'CALL_INVALID',
        `attributes: found none of the name ${attribute}; accepted: a value for each attribute ` +
          `that the rule counts by: ${rule.by.join(', ')}`,
      )
    }
    if (value.length > ATTRIBUTE_LENGTH_MAX) {
      throw new SluiceError(
        'CALL_ATTRIBUTE_TOO_LONG',
        `attribute ${attribute}: found ${value.length} characters; ` +
          `accepted: up to ${ATTRIBUTE_LENGTH_MAX}`,
      )
    }
  }
  return values
}

interface Limits {
  readonly limits: readonly CompiledLimit[]
  readonly tiers: CompiledTiers | undefined
}

function placeOf({ limits, tiers }: Limits, view: NormalizedCall, prefix: string) {
  const value = tiers && readNormalized(view, tiers.attribute)
  const tier = value === undefined ? undefined : tiers?.limits.get(value)
  if (tiers === undefined || value === undefined || tier === undefined) {
    return { where: `${prefix}limits`, limits }
  }
  return { where: prefix + tierField(tiers.attribute, value), limits: tier }
}
