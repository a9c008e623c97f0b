/** What all nodes saw together, as the admin API tells it; see packages/client/src/types.ts. */
import type { TopCallerView, TopOrder } from './callers/top-view.js'
import type { StoreSnapshot } from './node-snapshot.js'

export type { TopOrder } from './callers/top-view.js'

export interface SeriesView {
  readonly stepMs: number
  /** When the last step ended, in milliseconds since 1970. */
  readonly endMs: number
  readonly allowed: readonly number[]
  readonly refused: readonly number[]
  readonly shadowRefused: readonly number[]
  readonly degraded: readonly number[]
}

export interface LatencyView {
  readonly p50Ms: readonly (number | null)[]
  readonly p99Ms: readonly (number | null)[]
}

export interface RuleStatsView {
  readonly rule: string
  readonly series: SeriesView
  readonly candidate: SeriesView | null
  readonly refusingSince: string | null
  readonly callers: number | null
  readonly left: readonly number[]
}

export interface StatsView {
  readonly at: string
  readonly nodes: number
  readonly isWhole: boolean
  readonly rulesVersion: number
  readonly series: SeriesView
  readonly decisionLatency: LatencyView
  readonly storeLatency: LatencyView
  readonly minutes: SeriesView
  readonly store: StoreSnapshot
  readonly rules: readonly RuleStatsView[]
}

export interface TopView {
  readonly at: string
  readonly since: string
  readonly by: TopOrder
  readonly nodes: number
  readonly isWhole: boolean
  readonly callers: readonly TopCallerView[]
}

export interface RuleTickView {
  readonly rule: string
  readonly endMs: number
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  readonly candidateAllowed: number
  readonly candidateRefused: number
  readonly refusingSince: string | null
}

/** Without `alertsActive`, which whoever tells it adds. */
export interface TickView {
  readonly at: string
  readonly rulesVersion: number
  readonly nodes: number
  readonly isWhole: boolean
  readonly endMs: number
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  readonly degraded: number
  readonly decisionP50Ms: number | null
  readonly decisionP99Ms: number | null
  readonly storeP50Ms: number | null
  readonly storeP99Ms: number | null
  readonly store: StoreSnapshot
  readonly rules: readonly RuleTickView[]
}

/** A node as it told of itself on the board. */
export interface NodeSnapshotView {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly release: string
  readonly rulesVersion: number
  readonly problem?: string | undefined
  readonly startedAt: string
  readonly seenMsAgo: number
  readonly decisionsPerSecond: number
  readonly refusalsPerSecond: number
  readonly clockOffsetMs: number | null
  readonly store: string
}
