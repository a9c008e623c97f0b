/** Applies `--limits` to the limits of a rule. */
import { formatDuration, limitNameOf, parseRules, parseData } from '@sluice/core'
import { UsageError } from './command-errors.js'
import { isRecord } from './guards.js'

/** One item of `--limits`. */
interface LimitEdit {
  /** Undefined: the window identifies the limit, or the rule has only one. */
  readonly name: string | undefined
  /** In short form, or a map. */
  readonly limit: unknown
}

/** A limit of the rule, and what distinguishes it from the others. */
interface PresentLimit {
  readonly document: unknown
  readonly name: string
  readonly windowMs: number
  readonly max: number
}

interface Amount {
  readonly max: number
  readonly windowMs: number
}

const NAMED = /^([^={}\s]{1,64})=(.+)$/s
const ACCEPTED = 'limits such as 3/minute, or 3/minute,100/hour, or hourly=100/hour'

/**
 * Replaces the limits that are given and keeps the others. A short form changes `max` and `window`
 * of the limit it stands for and keeps its name, algorithm and other fields. Throws a `Misuse`.
 */
export function editLimits(present: unknown, text: string): readonly unknown[] {
  const edits = readEdits(text)
  const limits = Array.isArray(present) ? (present as readonly unknown[]).map(readPresent) : []
  const named = edits.filter(({ name }) => name !== undefined)
  if (named.length === 0) return replaceAll(limits, edits)
  if (named.length === edits.length) return replaceNamed(limits, edits)
  throw new UsageError(`--limits: found limits with and without a name; accepted: ${ACCEPTED}`)
}

/** Whether one of these limits, in the form of a rule, refuses every call. */
export function hasZeroLimit(limits: unknown): boolean {
  if (!Array.isArray(limits)) return false
  return (limits as readonly unknown[]).some((limit) =>
    typeof limit === 'string' ? /^0+\//.test(limit.trim()) : isRecord(limit) && limit['max'] === 0,
  )
}

function readEdits(text: string): readonly LimitEdit[] {
  const { value, problems } = parseData(`[${text}]`)
  if (!Array.isArray(value) || value.length === 0 || problems.length > 0) {
    throw new UsageError(`--limits: found "${text}"; accepted: ${ACCEPTED}`)
  }
  return (value as readonly unknown[]).map((item) => {
    const [, name, limit] = typeof item === 'string' ? (NAMED.exec(item) ?? []) : []
    return name === undefined ? { name, limit: item } : { name, limit }
  })
}

/** All limits, in the given order. A limit with a window that the rule already has is changed. */
function replaceAll(
  present: readonly PresentLimit[],
  edits: readonly LimitEdit[],
): readonly unknown[] {
  if (present.length > 1 && edits.length < present.length) {
    const names = present.map(({ name }) => name).join(', ')
    throw new UsageError(
      `--limits: found ${edits.length} for a rule that has ${present.length} (${names}); accepted: all of them, or those that change by name, such as ${present[0]?.name}=3/minute`,
    )
  }
  const left = [...present]
  const take = (isIt: (limit: PresentLimit) => boolean) => {
    const index = left.findIndex(isIt)
    return index === -1 ? undefined : left.splice(index, 1)[0]
  }
  const sameWindow = edits.map(({ limit }) => {
    const amount = amountOf(limit)
    return amount && take(({ windowMs }) => windowMs === amount.windowMs)
  })
  return edits.map(({ limit }, index) => {
    const before = sameWindow[index] ?? (isRecord(limit) ? undefined : take(() => true))
    return merge(before, limit)
  })
}

function replaceNamed(
  present: readonly PresentLimit[],
  edits: readonly LimitEdit[],
): readonly unknown[] {
  const names = present.map(({ name }) => name)
  for (const [index, { name = '' }] of edits.entries()) {
    if (!names.includes(name)) {
      const found = `--limits: found "${name}", which is no limit of the rule`
      throw new UsageError(`${found}; accepted: ${names.join(', ')}`)
    }
    if (edits.findIndex((each) => each.name === name) !== index) {
      throw new UsageError(`--limits: found "${name}" twice; accepted: once`)
    }
  }
  return present.map((limit) => {
    const change = edits.find(({ name }) => name === limit.name)
    return change === undefined ? limit.document : merge(limit, change.limit)
  })
}

function merge(before: PresentLimit | undefined, limit: unknown): unknown {
  if (isRecord(limit)) return limit
  const amount = amountOf(limit)
  if (amount === undefined) throw badLimit(limit)
  if (before === undefined || !isRecord(before.document)) return limit
  const { max, windowMs } = amount
  const { burst, queue } = before.document
  return {
    ...before.document,
    max,
    // Of the same length it stays as it is written: a calendar day is no window of 24 hours.
    ...(windowMs !== before.windowMs && { window: formatDuration(windowMs) }),
    // A burst or queue that was written out with the value of max follows max.
    ...(burst === before.max && { burst: max }),
    ...(queue === before.max && { queue: max }),
  }
}

function readPresent(document: unknown): PresentLimit {
  const spec = specOf(document)
  if (spec === undefined) return { document, name: '', windowMs: Number.NaN, max: Number.NaN }
  const { max, window } = spec
  // A short form can name a calendar day (`10/day`), but no week or month.
  const windowMs = window === undefined || window === 'day' ? spec.windowMs : Number.NaN
  return { document, name: limitNameOf(spec), windowMs, max }
}

function amountOf(limit: unknown): Amount | undefined {
  return specOf(limit)
}

function specOf(limit: unknown) {
  return parseLimit(limit).rules?.rules[0]?.limits[0]
}

function parseLimit(limit: unknown) {
  return parseRules([{ id: 'limit', limits: [limit] }])
}

function badLimit(limit: unknown): UsageError {
  const [error] = parseLimit(limit).errors
  const found = error === undefined ? `"${String(limit)}"` : error.found
  const meant = error?.suggestion === undefined ? '' : `; did you mean ${error.suggestion}?`
  return new UsageError(`--limits: found ${found}${meant}; accepted: ${ACCEPTED}`)
}
