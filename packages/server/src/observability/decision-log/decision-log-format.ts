/**
 * The form of a decision log: lines of text, described in docs/reference/decision-log.md. A head
 * begins a section; names of rules and times are read from it on.
 */
import type { RuleOutcome, Source } from '@sluice/core'

/** What one rule said of one call. */
export interface LoggedDecision {
  /** Milliseconds since 1970. */
  readonly atMs: number
  readonly rule: string
  /** The hash that stands for the caller, 16 hex digits. */
  readonly caller: string
  /** What the rule counts of the call. */
  readonly cost: number
  readonly outcome: RuleOutcome
  readonly source: Source
  /** The share of callers of which every decision was written. */
  readonly sample: number
}

export const HEAD_WORD = '#sluice-decisions'
export const FORMAT_VERSION = 1
/** What a head looks like, for people. */
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
