/** The label of a caller: its plan and attributes as one short text. */
import { type Attributes, type NormalizedCall, readNormalized, show } from '@sluice/core'

/** Longer values are cut: whole keys and addresses fit, and memory stays bounded. */
const VALUE_LENGTH_MAX = 64
const PLAN_LENGTH_MAX = 24
/** The length that all values of a caller share, unless that leaves less than the minimum. */
const VALUES_LENGTH = 80
const VALUE_LENGTH_LEAST = 16
/** The maximum of attributes in `by`. */
export const BY_MAX = 8
/** A plan, eight values of minimum length, and separators. */
export const LABEL_LENGTH_MAX = PLAN_LENGTH_MAX + BY_MAX * (VALUE_LENGTH_LEAST + 1)
/** Occurs in no part, because `show` escapes it. */
const SEPARATOR = '\n'
const PLAN = 'plan'

export interface ParsedLabel {
  readonly caller: Readonly<Record<string, string>>
  readonly plan: string | null
}

/** A caller without a label. */
const NO_LABEL: ParsedLabel = { caller: {}, plan: null }

/** Uses the values as the rule counted them: the network of an address, the matched route. */
export function makeLabel(by: readonly string[], call: NormalizedCall): string {
  return joinLabel(
    planOf(call.attributes),
    by.map((attribute) => readNormalized(call, attribute) ?? ''),
  )
}

/** Joining copies the parts: a slice of a long string would retain the whole string. */
export function joinLabel(plan: string, values: readonly string[]): string {
  const share = Math.floor(VALUES_LENGTH / Math.max(1, values.length))
  const most = Math.min(VALUE_LENGTH_MAX, Math.max(VALUE_LENGTH_LEAST, share))
  return [show(plan, PLAN_LENGTH_MAX), ...values.map((value) => show(value, most))].join(SEPARATOR)
}

/** `plan` is empty if there is none. */
export function splitLabel(label: string): { readonly plan: string; readonly values: string[] } {
  const [plan = '', ...values] = label.split(SEPARATOR)
  return { plan, values }
}

export function parseLabel(by: readonly string[], label: string | undefined): ParsedLabel {
  if (label === undefined) return NO_LABEL
  const { plan, values } = splitLabel(label)
  const entries = by.map((attribute, place) => [attribute, values[place] ?? ''] as const)
  return {
    // `fromEntries`, because an attribute may have any name, even `__proto__`.
    caller: Object.fromEntries(entries.filter(([, value]) => value !== '')),
    plan: plan === '' ? null : plan,
  }
}

/** Rules may not have validated the attribute, so it may have another type. */
function planOf(attributes: Attributes): string {
  const plan = Object.hasOwn(attributes, PLAN) ? attributes[PLAN] : undefined
  return typeof plan === 'string' || typeof plan === 'number' ? String(plan) : ''
}
