/** Callers that have had nothing left for long: one that is broken, or whose limit is too small. */
import { show } from '@sluice/core'
import type { Finding } from '../alert.js'

export interface CallerAtZero {
  readonly rule: string
  readonly hash: string
  /** What may be shown to holders of the admin token. */
  readonly caller: Readonly<Record<string, string>>
  /** The rule has one counter for all of its calls. */
  readonly isEverybody: boolean
  readonly sinceMs: number
}

const VALUE_SHOWN_MAX = 100
const ATTRIBUTES_MAX = 16

/** The summary goes to the log, so it has the hash; the values are in the details alone. */
export function findCallersAtZero(
  callers: readonly CallerAtZero[],
  nowMs: number,
): readonly Finding[] {
  return callers
    .toSorted((a, b) => a.sinceMs - b.sinceMs)
    .map(({ rule, hash, caller, isEverybody, sinceMs }) => {
      const who = `${isEverybody ? 'Everybody together' : `Caller ${hash}`} of rule "${rule}"`
      const lasted = timeIn(nowMs - sinceMs)
      const summary = `${who} has had nothing left for ${lasted}.`
      const past = `${who} had nothing left for ${lasted}.`
      const zeroSince = new Date(sinceMs).toISOString()
      const details = { rule, hash, zeroSince, caller: listOf(caller) }
      return { subject: `${rule}/${hash}`, summary, past, details }
    })
}

function listOf(caller: CallerAtZero['caller']): readonly string[] {
  return Object.entries(caller)
    .slice(0, ATTRIBUTES_MAX)
    .map(([name, value]) => show(`${name}=${value}`, VALUE_SHOWN_MAX))
}

function timeIn(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} minutes`
}
