/** Durations in rules and configuration: a whole number and one unit, from `250ms` to `366d`. */

const UNITS_MS: readonly (readonly [unit: string, ms: number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
]

export const WINDOW_MS_MIN = 250
export const WINDOW_MS_MAX = 366 * 86_400_000

const SHAPE = /^(0|[1-9][0-9]{0,14})(ms|s|m|h|d)$/

/** Returns the duration in milliseconds, or undefined if the text is not one. */
export function parseDuration(text: string): number | undefined {
  const shape = SHAPE.exec(text)
  if (shape === null) return undefined
  const unitMs = UNITS_MS.find(([unit]) => unit === shape[2])?.[1] ?? 1
  const ms = Number(shape[1]) * unitMs
  return Number.isSafeInteger(ms) ? ms : undefined
}

/** Returns the shortest form of a duration: 3600000 is `1h`, 90000 is `90s`. */
export function formatDuration(ms: number): string {
  const [unit, unitMs] = UNITS_MS.find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1]
  return `${ms / unitMs}${unit}`
}

/** How `durationText` rounds: `down` for elapsed time, `up` for time to wait. */
export type DurationRounding = 'down' | 'up' | 'nearest'

/** Each unit is used for values below `bound`, with this many fractions shown. */
const SHOWN_UNITS = [
  { unit: 'ms', ms: 1, bound: 1000, parts: 1 },
  { unit: 's', ms: 1000, bound: 120, parts: 10 },
  { unit: 'min', ms: 60_000, bound: 60, parts: 1 },
  { unit: 'h', ms: 3_600_000, bound: 48, parts: 10 },
] as const
const DAYS = { unit: 'd', ms: 86_400_000, parts: 10 } as const
/** Tenths of a millisecond are shown below this, because clock differences need them. */
const TENTHS_BELOW_MS = 100

const ROUND: Readonly<Record<DurationRounding, (value: number) => number>> = {
  down: Math.floor,
  up: Math.ceil,
  nearest: Math.round,
}

/**
 * Formats a duration for display: `0.4 ms`, `1.5 s`, `7 min`, `1 h`, `-1 h`. Rules and
 * configuration use `formatDuration`, which does not round.
 */
export function durationText(ms: number, rounding: DurationRounding = 'nearest'): string {
  if (!Number.isFinite(ms)) return ms === Infinity ? 'forever' : 'not known'
  const length = Math.abs(ms)
  // A value that is rounded up to the bound belongs to the next unit: 3599999.6 ms is 1 h.
  for (const { unit, ms: size, bound, parts } of SHOWN_UNITS) {
    const isFine = unit === 'ms' && rounding === 'nearest' && length < TENTHS_BELOW_MS
    const value = rounded(length / size, isFine ? 10 : parts, rounding)
    if (value < bound) return `${ms < 0 && value > 0 ? '-' : ''}${value} ${unit}`
  }
  const days = rounded(length / DAYS.ms, DAYS.parts, rounding)
  return `${ms < 0 ? '-' : ''}${days} ${DAYS.unit}`
}

function rounded(value: number, parts: number, rounding: DurationRounding): number {
  return ROUND[rounding](value * parts) / parts
}
