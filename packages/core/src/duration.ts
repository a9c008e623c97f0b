/** Durations as a person writes them: a whole number and one unit, from `250ms` to `366d`. */

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

/** The duration in milliseconds, or undefined if the text is not one. */
export function parseDuration(text: string): number | undefined {
  const shape = SHAPE.exec(text)
  if (shape === null) return undefined
  const unitMs = UNITS_MS.find(([unit]) => unit === shape[2])?.[1] ?? 1
  const ms = Number(shape[1]) * unitMs
  return Number.isSafeInteger(ms) ? ms : undefined
}

/** The shortest way to write a duration: 3600000 is `1h`, 90000 is `90s`. */
export function formatDuration(ms: number): string {
  const [unit, unitMs] = UNITS_MS.find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1]
  return `${ms / unitMs}${unit}`
}
