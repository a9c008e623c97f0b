/**
 * What one node saw of its decisions, and leaves for the others on the board: counts by steps of
 * time, its top callers, its view of the store. All of it is JSON, and bounded.
 */
import type { Alert } from '../alerts/alert.js'

/** Steps begin at multiples of their length since 1970, so those of all nodes fall together. */
export const BUCKET_MS = 2000
export const BUCKETS = 150
export const RULE_BUCKET_MS = 10_000
export const RULE_BUCKETS = 60
export const MINUTE_BUCKETS = 360
/** Rules that a node tells of: those with most refusals, then those with most decisions. */
export const SNAPSHOT_RULES_MAX = 200
/** Callers that a node tells of, for each rule and order. */
export const SNAPSHOT_CALLERS_MAX = 20
/** Alerts that a node tells of: the longest active, and the last that ended. */
export const SNAPSHOT_ALERTS_MAX = 50
/** Shares of what is left: 0, up to 0.1, 0.25, 0.5, 0.75, and more. */
export const LEFT_BOUNDS = [0, 0.1, 0.25, 0.5, 0.75, 1] as const

/** Counts of complete steps, the oldest first. `end`: the number of the step after the last. */
export interface SeriesSnapshot {
  readonly end: number
  readonly allowed: readonly number[]
  readonly refused: readonly number[]
  readonly shadowRefused: readonly number[]
  readonly degraded: readonly number[]
}

/** For each complete step of `STEP_MS`, how many lay below each bound; as sparse pairs. */
export interface LatencySnapshot {
  /** In seconds, rising; one more count for what lies above the last. */
  readonly bounds: readonly number[]
  /** For each step, `[place, count, place, count, ...]`. */
  readonly steps: readonly (readonly number[])[]
}

export interface RuleSnapshot {
  readonly rule: string
  readonly series: SeriesSnapshot
  readonly candidate: SeriesSnapshot | null
  /** Milliseconds since 1970. */
  readonly refusingSinceMs: number | null
  /** Registers of the sketch of its distinct callers in five minutes, base64; null: not kept. */
  readonly sketch: string | null
  /** By `LEFT_BOUNDS`, since the start of the last ten minutes. */
  readonly left: readonly number[]
}

/** What identifies a caller of a rule, and when it was last seen. */
export interface CallerIdentity {
  readonly rule: string
  readonly hash: string
  readonly caller: Readonly<Record<string, string>>
  readonly plan: string | null
  /** Whether the rule has one counter for all of its calls. */
  readonly isEverybody?: boolean | undefined
  /** A recent call that was refused, or would have been; absent in snapshots of older releases. */
  readonly lastRefusedCall?: string | null | undefined
  readonly lastSeenMs: number
}

export interface CallerSnapshot extends CallerIdentity {
  readonly refusals: number
  readonly refusalsError: number
  readonly use: number
  readonly useError: number
  readonly zeroSinceMs: number | null
  /** Whether its limits had refilled by the node's estimate, because it made no more calls. */
  readonly isRefilled?: boolean | undefined
  /** Bit i is set if it reached its limit in the hour i hours ago. */
  readonly hours: number
}

/** A caller that a rule in shadow mode, or a candidate, would have refused. */
export interface ShadowCallerSnapshot extends CallerIdentity {
  readonly shadowRefusals: number
  readonly shadowRefusalsError: number
  readonly candidateRefusals: number
  readonly candidateRefusalsError: number
}

export interface StoreSnapshot {
  readonly name: string
  readonly state: string
  readonly isWell: boolean
  readonly counters: number | null
  readonly memoryBytes: number | null
  readonly memoryMaxBytes: number | null
  readonly evicted: number
  readonly nodes: readonly {
    readonly address: string
    readonly isAnswering: boolean
    readonly isBreakerOpen: boolean
    readonly clockOffsetMs: number | null
  }[]
}

/** Alerts of one node, or of all. */
export interface AlertLists {
  readonly active: readonly Alert[]
  /** Those that ended, the last first. */
  readonly recent: readonly Alert[]
}

export interface NodeSnapshot {
  /** Of the format; a node that reads another one leaves it out. */
  readonly format: 1
  readonly node: { readonly id: string; readonly host: string; readonly pid: number }
  readonly release: string
  readonly startedAt: string
  readonly rulesVersion: number
  /** What keeps it from the newest rules; null: nothing, undefined: its release does not tell. */
  readonly problem?: string | null | undefined
  readonly atMs: number
  readonly total: SeriesSnapshot
  readonly minutes: SeriesSnapshot
  readonly decisions: LatencySnapshot
  readonly store: LatencySnapshot
  readonly storeHealth: StoreSnapshot
  readonly rules: readonly RuleSnapshot[]
  /** Since when callers are counted. */
  readonly callersSinceMs: number
  readonly callers: readonly CallerSnapshot[]
  /** Apart, so that they take no room from `callers`; undefined: its release does not tell. */
  readonly shadowCallers?: readonly ShadowCallerSnapshot[] | undefined
  readonly alerts: AlertLists
  /** Names of the callers in it, which the rows then lack: see published-names.ts. */
  readonly sealedNames?: string | undefined
}
