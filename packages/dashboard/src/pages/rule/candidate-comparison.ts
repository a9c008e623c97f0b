/**
 * What is seen of limits on trial beside those in force, over the same time. A candidate is asked
 * only about calls that pass now, so what it would refuse comes on top of what is refused; what it
 * would let pass of that, no trial can tell.
 */
import type { RuleStatsView } from '@sluice/client'
import { count, duration, sum } from '../../format.js'

export interface CandidateComparison {
  /** How long both were counted. */
  readonly spanMs: number
  /** What the rule let pass and refused, and what it would have refused, were it enforced. */
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  /** About how many calls the candidate was asked, and how many of them it would have refused. */
  readonly evaluated: number
  readonly wouldRefuse: number
}

/** Undefined: no call was seen since the candidate is on trial. */
export function compareCandidate(
  stats: RuleStatsView | undefined,
): CandidateComparison | undefined {
  if (stats === undefined || stats.candidate === null) return undefined
  const { series, candidate } = stats
  const evaluated = candidate.allowed.map((value, at) => value + (candidate.shadowRefused[at] ?? 0))
  const first = evaluated.findIndex((value) => value > 0)
  if (first === -1) return undefined
  // In the step in which it began it was asked about a part only.
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

/** Whether some calls were refused before the candidate could be asked about them. */
export const addsRefusals = ({ refused }: CandidateComparison, mode: unknown): boolean =>
  mode !== 'shadow' || refused > 0

const calls = (value: number): string => `${count(value)} ${value === 1 ? 'call' : 'calls'}`

/** What promoting it would do, as far as a trial can say. */
export function promotionOutlook(comparison: CandidateComparison, mode: unknown): string {
  const { spanMs, refused, shadowRefused, wouldRefuse } = comparison
  const time = `In the last ${duration(spanMs)}`
  if (!addsRefusals(comparison, mode)) {
    return `${time} it would have refused ${calls(wouldRefuse)}; the limits in force would have refused ${count(shadowRefused)}.`
  }
  const more = `${time} it would have refused ${wouldRefuse === 0 ? 'no more calls' : `${count(wouldRefuse)} more ${wouldRefuse === 1 ? 'call' : 'calls'}`}`
  if (refused === 0) return `${more}; none was refused.`
  return `${more}, beside the ${count(refused)} that were refused. ${CANDIDATE_BLIND_SPOT}`
}

export const CANDIDATE_BLIND_SPOT =
  'A candidate is asked only about calls that pass now: how many of the refused ones it would let pass cannot be told from a trial.'
