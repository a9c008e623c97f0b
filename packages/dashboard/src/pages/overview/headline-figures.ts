/** The headline figures of the overview, and their one-sentence summary. */
import type { SeriesView, StatsView, StoreView } from '@sluice/client'
import { decisionRate, millis, percent, perSecond, rate } from '../../format.js'

/** Averaged over ten seconds: a single step is too noisy. */
export const RECENT_S = 10

export interface HeadlineFigures {
  readonly decisions: number
  readonly refusals: number
  /** Refusals divided by decisions. */
  readonly share: number
}

export function headlineFigures(series: SeriesView, seconds: number = RECENT_S): HeadlineFigures {
  const refusals = perSecond(series, 'refused', seconds)
  const decisions = decisionRate(series, seconds)
  return { decisions, refusals, share: decisions === 0 ? 0 : refusals / decisions }
}

/** The last value of the recent steps; older values do not describe the current latency. */
export const latestValue = (values: readonly (number | null)[], stepMs: number): number | null =>
  values.slice(-Math.ceil((RECENT_S * 1000) / stepMs)).findLast((value) => value !== null) ?? null

type StoreStats = Pick<StatsView, 'series' | 'storeLatency'> & {
  readonly store: Pick<StoreView, 'name' | 'isWell'>
}

/** The hint below the store latency. */
export function storeHint({ store, storeLatency, series }: StoreStats): string {
  if (isInProcess(store)) return 'counters are in the process'
  const p50 = latestValue(storeLatency.p50Ms, series.stepMs)
  if (p50 !== null) return `p50 ${millis(p50)}`
  return store.isWell ? 'no requests in 10 s' : 'not answering'
}

/** Whether the counters are in the process, and not in Redis. */
export const isInProcess = ({ name }: Pick<StoreView, 'name'>): boolean => name === 'memory'

/** The headline figures in one sentence. */
export function healthSummary(stats: StatsView): string {
  const { decisions, share } = headlineFigures(stats.series)
  if (decisions === 0) return 'No requests in the last 10 seconds.'
  const p99 = latestValue(stats.decisionLatency.p99Ms, stats.series.stepMs)
  const time = p99 === null ? '' : `, p99 latency ${millis(p99)}`
  const refused = share === 0 ? 'none refused' : `${percent(share)} refused`
  return `${rate(decisions)} requests per second, ${refused}${time}.`
}
