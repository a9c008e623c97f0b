/** What is kept of a caller for people to read: its plan and its attributes, as one short text. */
import { type Attributes, type NormalizedCall, readNormalized, show } from '@sluice/core'

/** Beyond these what is shown is cut: whole keys and addresses fit, and memory has a bound. */
const VALUE_LENGTH_MAX = 64
const PLAN_LENGTH_MAX = 24
/** What all values of a caller share, as long as that leaves each the least. */
const VALUES_LENGTH = 80
const VALUE_LENGTH_LEAST = 16
/** The most attributes that a rule counts by. */
export const BY_MAX = 8
/** A plan, eight values at their least, and what stands between. */
export const LABEL_LENGTH_MAX = PLAN_LENGTH_MAX + BY_MAX * (VALUE_LENGTH_LEAST + 1)
/** Stands in no part: `show` escapes it. */
const SEPARATOR = '\n'
const PLAN = 'plan'

export interface ParsedLabel {
  readonly caller: Readonly<Record<string, string>>
  readonly plan: string | null
}

/** Of a caller that was seen too little to be named. */
const NO_LABEL: ParsedLabel = { caller: {}, plan: null }

/** Of what the rule counted: the network of an address, the route that was found. */
export function makeLabel(by: readonly string[], call: NormalizedCall): string {
  return joinLabel(
    planOf(call.attributes),
    by.map((attribute) => readNormalized(call, attribute) ?? ''),
  )
}

/**
 * Joined, the parts are copied: kept as they are, a cut of eight kilobytes would hold on to all
 * eight.
 */
export function joinLabel(plan: string, values: readonly string[]): string {
  const share = Math.floor(VALUES_LENGTH / Math.max(1, values.length))
  const most = Math.min(VALUE_LENGTH_MAX, Math.max(VALUE_LENGTH_LEAST, share))
  return [show(plan, PLAN_LENGTH_MAX), ...values.map((value) => show(value, most))].join(SEPARATOR)
}

/** Empty where there is none. */
export function splitLabel(label: string): { readonly plan: string; readonly values: string[] } {
  const [plan = '', ...values] = label.split(SEPARATOR)
  return { plan, values }
}

export function parseLabel(by: readonly string[], label: string | undefined): ParsedLabel {
  if (label === undefined) return NO_LABEL
  const { plan, values } = splitLabel(label)
  const entries = by.map((attribute, place) => [attribute, values[place] ?? ''] as const)
  return {
    // Made from entries, an attribute may have any name.
    caller: Object.fromEntries(entries.filter(([, value]) => value !== '')),
    plan: plan === '' ? null : plan,
  }
}

/** No rule need have read it, so it may be no value at all. */
function planOf(attributes: Attributes): string {
  const plan = Object.hasOwn(attributes, PLAN) ? attributes[PLAN] : undefined
  return typeof plan === 'string' || typeof plan === 'number' ? String(plan) : ''
}
