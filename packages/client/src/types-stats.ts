/** What nodes see and tell, what limits would do, and sessions of browsers. */
import type { Attributes, Role } from './types.js'

/** Counts by steps of time, the oldest first; all lists have the same length. */
export interface SeriesView {
  readonly stepMs: number
  /** When the last step ended, in milliseconds since 1970; steps begin at multiples of `stepMs`. */
  readonly endMs: number
  readonly allowed: readonly number[]
  readonly refused: readonly number[]
  readonly shadowRefused: readonly number[]
  /** Decided by a posture, because the store did not answer; also counted as one of the others. */
  readonly degraded: readonly number[]
}

/** Milliseconds below which half, and 99 of 100, lay; null: there were none in that step. */
export interface LatencyView {
  readonly p50Ms: readonly (number | null)[]
  readonly p99Ms: readonly (number | null)[]
}

export interface StoreView {
  /** Where counters live: `memory`, `redis 10.0.0.5:6379`. */
  readonly name: string
  /** For people: `redis: answering`. */
  readonly state: string
  readonly isWell: boolean
  /** Null: nobody knows. */
  readonly counters: number | null
  readonly memoryBytes: number | null
  /** Null: no bound is known. */
  readonly memoryMaxBytes: number | null
  readonly evicted: number
  /** Nodes of Redis; empty for memory. */
  readonly nodes: readonly StoreNodeView[]
}

export interface StoreNodeView {
  readonly address: string
  readonly isAnswering: boolean
  readonly isBreakerOpen: boolean
  /** How far its clock is ahead of that of the node that was asked; null: not known. */
  readonly clockOffsetMs: number | null
}

export interface RuleStatsView {
  readonly rule: string
  readonly series: SeriesView
  /** Of the limits on trial, where there are any: `refused` is 0, `shadowRefused` what would be. */
  readonly candidate: SeriesView | null
  /** Since when it refuses without a pause of a minute; null: it does not now. */
  readonly refusingSince: string | null
  /** Distinct callers in five minutes, about. */
  readonly callers: number | null
  /** How many decisions left a share of 0, up to 10 %, 25 %, 50 %, 75 %, and more of the limit. */
  readonly left: readonly number[]
}

/** What all nodes saw of their decisions. */
export interface StatsView {
  readonly at: string
  /** How many nodes the figures are of. */
  readonly nodes: number
  /** False: what other nodes saw could not be read, so this is what one process saw alone. */
  readonly isWhole: boolean
  readonly rulesVersion: number
  /** Everything together, by steps of two seconds. */
  readonly series: SeriesView
  readonly decisionLatency: LatencyView
  readonly storeLatency: LatencyView
  /** Everything together by minutes, for hours. */
  readonly minutes: SeriesView
  readonly store: StoreView
  /** The busiest, most refusals first; or the one that was asked for. */
  readonly rules: readonly RuleStatsView[]
}

/**
 * Most refusals (then most would-be ones), most use, longest at zero, at the limit in 12 or more of
 * the last 24 hours, or most would-be refusals.
 */
export type TopOrder = 'refusals' | 'use' | 'zero' | 'hours' | 'shadow'

export interface TopCallerView {
  readonly rule: string
  /** Open attributes as they are, secret ones as hash and last four characters. */
  readonly caller: Attributes
  /** What logs and Redis have in place of the caller. */
  readonly hash: string
  /** The rule has one counter for all of its calls. Else an empty `caller` has no name here. */
  readonly isEverybody: boolean
  readonly plan: string | null
  /** One that was refused lately, or would have been: method, and route or path; null: unknown. */
  readonly lastRefusedCall: string | null
  /** Since `since`; what was admitted, in units of cost. */
  readonly refusals: number
  readonly use: number
  /** Calls that passed and would have been refused: by the rule in shadow, by its candidate. */
  readonly shadowRefusals: number
  readonly candidateRefusals: number
  /** By how much the figure it is ordered by may be too high. */
  readonly error: number
  /** Since when it comes to zero again and again; null: it had room, has refilled, or left. */
  readonly zeroSince: string | null
  readonly lastSeen: string
  /** In how many of the last 24 hours it came to its limit. */
  readonly hoursAtLimit: number
}

export interface TopView {
  readonly at: string
  /** What is counted was counted since then: five to ten minutes. */
  readonly since: string
  readonly by: TopOrder
  readonly nodes: number
  /** False: what other nodes saw could not be read, so this is what one process saw alone. */
  readonly isWhole: boolean
  readonly callers: readonly TopCallerView[]
}

export type AlertName =
  | 'breaker-open'
  | 'degraded'
  | 'availability'
  | 'store-refused'
  | 'fleet-unknown'
  | 'store-slow'
  | 'clock-offset'
  | 'clock-spread'
  | 'store-memory'
  | 'store-evictions'
  | 'rules-stale'
  | 'caller-exhausted'
  | 'refusals-anomaly'
  | 'callers-anomaly'
  | 'upstream-failing'

export interface AlertView {
  /** The same for the same thing as long as it lasts: what receivers deduplicate by. */
  readonly id: string
  readonly alert: AlertName
  readonly severity: 'page' | 'ticket'
  /** What it is about: a rule, a store's address, a caller's hash; empty: the whole node. */
  readonly subject: string
  /** One sentence for people; of the past when it is over. */
  readonly summary: string
  readonly details: Readonly<Record<string, string | number | readonly string[]>>
  readonly since: string
  /** Null: it goes on. */
  readonly resolvedAt: string | null
  /** The node that saw it. */
  readonly node: string
  /** The section of the runbook. */
  readonly runbook: string
}

export interface AlertsView {
  /** Pages before tickets, then the longest first. */
  readonly active: readonly AlertView[]
  /** Those that ended, the last first. */
  readonly recent: readonly AlertView[]
}

/** Sent every two seconds over `events`. */
export interface TickView {
  readonly at: string
  readonly rulesVersion: number
  readonly nodes: number
  /** False: what other nodes saw could not be read, so this is what one process saw alone. */
  readonly isWhole: boolean
  /** The last step of `StatsView.series`; a gap to the one before: read the stats again. */
  readonly endMs: number
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  readonly degraded: number
  readonly decisionP50Ms: number | null
  readonly decisionP99Ms: number | null
  readonly storeP50Ms: number | null
  readonly storeP99Ms: number | null
  readonly store: StoreView
  readonly alertsActive: number
  /** Of the busiest rules: what the last ten seconds had. */
  readonly rules: readonly RuleTickView[]
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

/** What `events` tells; `rules`: the version in force changed, `alert`: one began or ended. */
export type EventView =
  | { readonly event: 'tick'; readonly data: TickView }
  | { readonly event: 'rules'; readonly data: { readonly version: number } }
  | { readonly event: 'alert'; readonly data: AlertView }

/** Of a browser that was let in with a token; the cookie itself is out of reach for scripts. */
export interface SessionView {
  /** Of the token. */
  readonly name: string
  readonly role: Role
  readonly expiresAt: string
  /** To be sent back as `X-Sluice-Csrf` with every change. */
  readonly csrf: string
}

/** Made-up calls, to see what limits would do with them. */
export interface SimulationInput {
  /** Each alone, as `limits` of a rule has them; up to 12. */
  readonly limits: readonly unknown[]
  /** In the order of their times, counted from the beginning; up to 2,000. */
  readonly calls: readonly { readonly atMs: number; readonly cost?: number }[]
}

export interface SimulationView {
  readonly trials: readonly {
    readonly limit: string
    readonly algorithm: string
    /** Beside each call. */
    readonly outcomes: readonly {
      readonly allowed: boolean
      readonly delayMs: number
      readonly remaining: number
      readonly retryAfterMs: number | null
    }[]
  }[]
}
