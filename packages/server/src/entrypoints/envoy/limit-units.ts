/** The units of Envoy's limits, and the numbers of its messages. */
import type { LimitUnit } from './rate-limit-messages.js'

const SECOND_MS = 1000
const DAY_MS = 86_400_000

/** A month has 30 days and a year 365, as in envoyproxy/ratelimit and in Envoy's headers. */
const WINDOW_MS = {
  second: SECOND_MS,
  minute: 60 * SECOND_MS,
  hour: 3600 * SECOND_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
  year: 365 * DAY_MS,
} as const

const UNITS = new Map<number, LimitUnit>(
  (Object.keys(WINDOW_MS) as (keyof typeof WINDOW_MS)[]).map((unit) => [WINDOW_MS[unit], unit]),
)

/** Undefined for an unknown unit. */
export function windowOfUnit(unit: LimitUnit): number | undefined {
  return unit === 'unknown' ? undefined : WINDOW_MS[unit]
}

/** `unknown` for a window that is no unit. */
export function unitOfWindow(windowMs: number): LimitUnit {
  return UNITS.get(windowMs) ?? 'unknown'
}

/** The largest number of a 32-bit field; also what is left of an unlimited descriptor. */
export const UINT32_MAX = 4_294_967_295

export function clampUint32(value: number): number {
  return value > UINT32_MAX ? UINT32_MAX : value
}
