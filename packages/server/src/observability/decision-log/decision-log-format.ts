/**
 * The text format of the decision log, described in docs/reference/decision-log.md. A head begins a
 * section; rule numbers and times are relative to it.
 */
import type { RuleOutcome, Source } from '@sluice/core'

/** The decision of one rule about one call. */
export interface LoggedDecision {
  /** Milliseconds since 1970. */
  readonly atMs: number
  readonly rule: string
  /** The hash of the caller, 16 hex digits. */
  readonly caller: string
  /** The cost that the rule counts for the call. */
  readonly cost: number
  readonly outcome: RuleOutcome
  readonly source: Source
  /** The share of callers whose decisions were all written. */
  readonly sample: number
}

export const HEAD_WORD = '#sluice-decisions'
export const FORMAT_VERSION = 1
/** The form of a head, for error messages. */
export const HEAD_FORM = `${HEAD_WORD} ${FORMAT_VERSION} <start in ms> sample=<share>`

export const OUTCOME_LETTERS = {
  allowed: 'a',
  refused: 'r',
  shadow_refused: 's',
} as const satisfies Record<RuleOutcome, string>

export const SOURCE_LETTERS = {
  store: 's',
  lease: 'l',
  local: 'c',
  'deny-cache': 'd',
  posture: 'p',
} as const satisfies Record<Source, string>

export function headLine(startMs: number, sample: number): string {
  return `${HEAD_WORD} ${FORMAT_VERSION} ${startMs} sample=${sample}\n`
}
