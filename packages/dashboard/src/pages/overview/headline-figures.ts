/** The few figures that tell how things are. */
import type { SeriesView, StatsView, StoreView } from '@sluice/client'
import { millis, percent, perSecond, rate } from '../../format.js'

/** A single step jumps about; ten seconds are calm and still now. */
export const RECENT_S = 10

export interface HeadlineFigures {
  readonly decisions: number
  readonly refusals: number
  /** Refusals of all. */
  readonly share: number
}

export function headlineFigures(series: SeriesView, seconds: number = RECENT_S): HeadlineFigures {
  const refusals = perSecond(series, 'refused', seconds)
  const decisions = perSecond(series, 'allowed', seconds) + refusals
  return { decisions, refusals, share: decisions === 0 ? 0 : refusals / decisions }
}

/** The last that is known of now: what is older is no answer to how long it takes. */
export const latestValue = (values: readonly (number | null)[], stepMs: number): number | null =>
  values.slice(-Math.ceil((RECENT_S * 1000) / stepMs)).findLast((value) => value !== null) ?? null

type StoreStats = Pick<StatsView, 'series' | 'storeLatency'> & {
  readonly store: Pick<StoreView, 'name' | 'isWell'>
}

/** What stands below how long the store takes. */
export function storeHint({ store, storeLatency, series }: StoreStats): string {
  if (isInProcess(store)) return 'the counters are in the process'
  const p50 = latestValue(storeLatency.p50Ms, series.stepMs)
  if (p50 !== null) return `99 of 100; half ${millis(p50)}`
  return store.isWell ? 'not asked in ten seconds' : 'it does not answer'
}

/** Counters of a Redis are elsewhere, even while nothing is known of it. */
export const isInProcess = ({ name }: Pick<StoreView, 'name'>): boolean => name === 'memory'

/** All of it in one sentence. */
export function healthSummary(stats: StatsView): string {
  const { decisions, share } = headlineFigures(stats.series)
  if (decisions === 0) return 'No calls in the last ten seconds.'
  const p99 = latestValue(stats.decisionLatency.p99Ms, stats.series.stepMs)
  const time = p99 === null ? '' : `, decided within ${millis(p99)}`
  const refused = share === 0 ? 'nobody is refused' : `${percent(share)} refused`
  return `${rate(decisions)} decisions a second, ${refused}${time}.`
}
