/**
 * Compares a candidate with the active limits over the same time. A candidate only evaluates calls
 * that the active limits allow, so its refusals come on top of theirs. How many refused calls it
 * would allow is unknown.
 */
import type { RuleStatsView } from '@sluice/client'
import { count, duration, sum } from '../../format.js'

export interface CandidateComparison {
  /** The time over which both were counted. */
  readonly spanMs: number
  /** Calls that the rule allowed, refused, and would have refused if enforced. */
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  /** Calls that the candidate evaluated, and how many of them it would have refused. */
  readonly evaluated: number
  readonly wouldRefuse: number
}

/** Undefined: no call since the candidate was added. */
export function compareCandidate(
  stats: RuleStatsView | undefined,
): CandidateComparison | undefined {
  if (stats === undefined || stats.candidate === null) return undefined
  const { series, candidate } = stats
  const evaluated = candidate.allowed.map((value, at) => value + (candidate.shadowRefused[at] ?? 0))
  const first = evaluated.findIndex((value) => value > 0)
  if (first === -1) return undefined
  // The candidate evaluated only a part of its first step.
  const isPartial = first > 0 && first < evaluated.length - 1
  const steps = evaluated.length - first - (isPartial ? 1 : 0)
  const total = (values: readonly number[]) => sum(values.slice(-steps))
  return {
    spanMs: steps * candidate.stepMs,
    allowed: total(series.allowed),
    refused: total(series.refused),
    shadowRefused: total(series.shadowRefused),
    evaluated: total(evaluated),
    wouldRefuse: total(candidate.shadowRefused),
  }
}

/** Whether the candidate's refusals come on top of refusals by the active limits. */
export const addsRefusals = ({ refused }: CandidateComparison, mode: unknown): boolean =>
  mode !== 'shadow' || refused > 0

const calls = (value: number): string => `${count(value)} ${value === 1 ? 'request' : 'requests'}`

/** What promoting the candidate would do, as far as the comparison shows. */
export function promotionOutlook(comparison: CandidateComparison, mode: unknown): string {
  const { spanMs, refused, shadowRefused, wouldRefuse } = comparison
  const time = `In the last ${duration(spanMs)}`
  if (!addsRefusals(comparison, mode)) {
    return `${time} it would have refused ${calls(wouldRefuse)}; the active limits would have refused ${count(shadowRefused)}.`
  }
  const more = `${time} it would have refused ${wouldRefuse === 0 ? 'no more requests' : `${count(wouldRefuse)} more ${wouldRefuse === 1 ? 'request' : 'requests'}`}`
  if (refused === 0) return `${more}; none were refused.`
  return `${more}, in addition to the ${count(refused)} that were refused. ${CANDIDATE_BLIND_SPOT}`
}

export const CANDIDATE_BLIND_SPOT =
  'A candidate only evaluates requests that the active limits allow, so it is unknown how many refused requests it would allow.'
