/** Formats instants and durations for the terminal. */
import { durationText } from '@sluice/core/text'

/** `2026-01-02T03:04:05.678Z` to the second. */
export function instantText(iso: string | undefined): string {
  return iso?.replace(/\.\d+Z$/, 'Z') ?? ''
}

/** How long something has lasted, rounded down. */
export function elapsedText(ms: number): string {
  return durationText(Math.max(0, ms), 'down')
}

/** How long to wait, rounded up; null means forever. */
export function timeText(ms: number | null): string {
  return ms === null ? 'never' : durationText(ms, 'up')
}

/** The offset of a clock: `+0.4 ms`, `-1 h`. */
export function offsetText(ms: number): string {
  return `${ms > 0 ? '+' : ''}${durationText(ms)}`
}
