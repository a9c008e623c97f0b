/** What happened to the requests of each priority in the last seconds. */
import type { PriorityStatsView } from '@sluice/client'
import { sum } from '../../format.js'
import { RECENT_S } from './headline-figures.js'

export interface PriorityFigures {
  readonly priority: string
  /** Per second. */
  readonly admitted: number
  readonly shed: number
  readonly shadowShed: number
  /** Shed requests divided by admitted and shed ones. */
  readonly share: number
}

export function priorityFigures(stats: PriorityStatsView, stepMs: number): PriorityFigures {
  const recent = (counts: readonly number[]) => {
    const last = counts.slice(-Math.ceil((RECENT_S * 1000) / stepMs))
    return last.length === 0 ? 0 : sum(last) / ((last.length * stepMs) / 1000)
  }
  const admitted = recent(stats.admitted)
  const shed = recent(stats.shed)
  const all = admitted + shed
  return {
    priority: stats.priority,
    admitted,
    shed,
    shadowShed: recent(stats.shadowShed),
    share: all === 0 ? 0 : shed / all,
  }
}
