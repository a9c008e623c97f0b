/** The few figures that tell how things are. */
import type { SeriesView, StatsView } from '@sluice/client'
import { millis, percent, perSecond, rate } from '../../format.js'

/** A single step jumps about; ten seconds are calm and still now. */
const NOW_S = 10

export interface Pulse {
  readonly decisions: number
  readonly refusals: number
  /** Refusals of all. */
  readonly share: number
}

export function pulseOf(series: SeriesView, seconds: number = NOW_S): Pulse {
  const refusals = perSecond(series, 'refused', seconds)
  const decisions = perSecond(series, 'allowed', seconds) + refusals
  return { decisions, refusals, share: decisions === 0 ? 0 : refusals / decisions }
}

/** The last that is known. */
export const lastOf = (values: readonly (number | null)[]): number | null =>
  values.findLast((value) => value !== null) ?? null

/** All of it in one sentence. */
export function sentenceOf(seen: StatsView): string {
  const { decisions, share } = pulseOf(seen.series)
  if (decisions === 0) return 'No calls in the last ten seconds.'
  const p99 = lastOf(seen.decisionLatency.p99Ms)
  const time = p99 === null ? '' : `, decided within ${millis(p99)}`
  const refused = share === 0 ? 'nobody is refused' : `${percent(share)} refused`
  return `${rate(decisions)} decisions a second, ${refused}${time}.`
}
