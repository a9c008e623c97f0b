/** Reports callers that have been exhausted for long: broken clients, or limits too small. */
import { durationText, show } from '@sluice/core'
import type { Alert, Finding } from '../alert.js'

export interface ExhaustedCaller {
  readonly rule: string
  readonly hash: string
  /** Only for holders of the admin token. */
  readonly caller: Readonly<Record<string, string>>
  /** Whether the rule has one counter for all of its calls. */
  readonly isEverybody: boolean
  readonly sinceMs: number
  /** Method and route or path of a recently refused call; null if unknown. */
  readonly lastRefusedCall: string | null
}

type RefusedCaller = Pick<ExhaustedCaller, 'caller' | 'isEverybody' | 'lastRefusedCall'>

const VALUE_SHOWN_MAX = 100
const ATTRIBUTES_MAX = 16

/** The summary has only the hash, because it is logged; attribute values are in the details. */
export function findExhaustedCallers(
  callers: readonly ExhaustedCaller[],
  nowMs: number,
): readonly Finding[] {
  return callers
    .toSorted((a, b) => a.sinceMs - b.sinceMs)
    .map((exhausted) => {
      const { rule, hash, isEverybody, sinceMs } = exhausted
      const who = `${isEverybody ? 'Everybody together' : `Caller ${hash}`} of rule "${rule}"`
      const lasted = wholeSeconds(nowMs - sinceMs)
      const summary = `${who} has had nothing left for ${lasted}.`
      const past = `${who} had nothing left for ${lasted}.`
      const zeroSince = new Date(sinceMs).toISOString()
      const details = addCallerDetails({ rule, hash, zeroSince }, exhausted)
      return { subject: `${rule}/${hash}`, summary, past, details }
    })
}

/** Adds who is refused, and for which call; both bounded. */
export function addCallerDetails(
  details: Alert['details'],
  { caller, isEverybody, lastRefusedCall }: RefusedCaller,
): Alert['details'] {
  const texts = Object.entries(caller)
    .slice(0, ATTRIBUTES_MAX)
    .map(([name, value]) => show(`${name}=${value}`, VALUE_SHOWN_MAX))
  // An empty list means all callers together; a caller known only by its hash has no list.
  const isNamed = isEverybody || texts.length > 0
  return {
    ...details,
    ...(isNamed && { caller: texts }),
    ...(lastRefusedCall !== null && { lastRefusedCall }),
  }
}

function wholeSeconds(ms: number): string {
  return durationText(Math.max(0, Math.floor(ms / 1000)) * 1000, 'down')
}
