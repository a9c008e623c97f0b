/** Fleet statistics as the admin API returns them; see packages/client/src/types-stats.ts. */
import type { InFlightSnapshot, StoreSnapshot } from './node-snapshot.js'

export interface SeriesView {
  readonly stepMs: number
  /** The end of the last bucket, in milliseconds since 1970. */
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

/** Per step of the series of all calls, with the same end. */
export interface PriorityStatsView {
  readonly priority: string
  readonly admitted: readonly number[]
  readonly shed: readonly number[]
  readonly shadowShed: readonly number[]
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
  /** The most important first. */
  readonly priorities: readonly PriorityStatsView[]
  readonly inFlight: readonly InFlightSnapshot[]
}

/**
 * Most refusals, most use, longest exhausted, at the limit in most hours of the last 24, or most
 * would-be refusals.
 */
export type TopOrder = 'refusals' | 'use' | 'zero' | 'hours' | 'shadow'

export interface TopCallerView {
  readonly rule: string
  /** Open attributes in plain text, secret ones as hash and last four characters. */
  readonly caller: Readonly<Record<string, string>>
  readonly hash: string
  /** Whether the rule has one counter for all calls; otherwise an empty `caller` is unnamed. */
  readonly isEverybody: boolean
  readonly plan: string | null
  /** Method and route or path of a recent call that was refused, or would have been. */
  readonly lastRefusedCall: string | null
  readonly refusals: number
  /** Admitted cost. */
  readonly use: number
  /** Admitted calls that the rule in shadow mode, or its candidate, would have refused. */
  readonly shadowRefusals: number
  readonly candidateRefusals: number
  /** By how much the figure of the sort order may be too high. */
  readonly error: number
  /** An ISO time; null while budget is left. */
  readonly zeroSince: string | null
  readonly lastSeen: string
  readonly hoursAtLimit: number
}

export interface TopView {
  readonly at: string
  readonly since: string
  readonly by: TopOrder
  readonly nodes: number
  readonly isWhole: boolean
  readonly callers: readonly TopCallerView[]
  /** Priorities of which calls were shed in the last ten seconds. */
  readonly shed: readonly ShedRateView[]
}

export interface ShedRateView {
  readonly priority: string
  readonly perSecond: number
  /** Shed calls divided by admitted and shed ones. */
  readonly share: number
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

/** Without `alertsActive`, which the event stream adds. */
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
  readonly priorities: readonly {
    readonly priority: string
    readonly admitted: number
    readonly shed: number
    readonly shadowShed: number
  }[]
  readonly inFlight: readonly InFlightSnapshot[]
}

/** A node according to its last snapshot. */
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
