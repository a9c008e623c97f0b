/**
 * The snapshot that a node publishes for the others: counts by time bucket, its top callers, its
 * view of the store, its alerts. It is JSON, and bounded. Fields keep the names of released
 * formats (`steps`, `zeroSinceMs`).
 */
import type { Alert } from '../alerts/alert.js'

/** Buckets begin at multiples of their length since 1970, so those of all nodes coincide. */
export const BUCKET_MS = 2000
export const BUCKETS = 150
export const RULE_BUCKET_MS = 10_000
export const RULE_BUCKETS = 60
export const MINUTE_BUCKETS = 360
/** Rules in a snapshot: those with most refusals, then those with most decisions. */
export const SNAPSHOT_RULES_MAX = 200
/** Callers in a snapshot, for each rule and order. */
export const SNAPSHOT_CALLERS_MAX = 20
/** Alerts in a snapshot: the most urgent active ones, and the last resolved ones. */
export const SNAPSHOT_ALERTS_MAX = 50
/** Upper bounds of remaining shares: 0, up to 0.1, 0.25, 0.5, 0.75, and more. */
export const LEFT_BOUNDS = [0, 0.1, 0.25, 0.5, 0.75, 1] as const

/** Counts of complete buckets, the oldest first. `end` is the number after the last bucket. */
export interface SeriesSnapshot {
  readonly end: number
  readonly allowed: readonly number[]
  readonly refused: readonly number[]
  readonly shadowRefused: readonly number[]
  readonly degraded: readonly number[]
}

/** A histogram for each complete bucket of `BUCKET_MS`, as sparse pairs. */
export interface LatencySnapshot {
  /** In seconds, ascending; there is one more count for values above the last. */
  readonly bounds: readonly number[]
  /** For each bucket, `[place, count, place, count, ...]`. */
  readonly steps: readonly (readonly number[])[]
}

export interface RuleSnapshot {
  readonly rule: string
  readonly series: SeriesSnapshot
  readonly candidate: SeriesSnapshot | null
  /** Milliseconds since 1970. */
  readonly refusingSinceMs: number | null
  /** The sketch of its distinct callers in five minutes, encoded; null if not counted. */
  readonly sketch: string | null
  /** Decisions of the last ten minutes, by `LEFT_BOUNDS`. */
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

/** Alerts of one node, or of the fleet. */
export interface AlertLists {
  readonly active: readonly Alert[]
  /** Resolved alerts, the latest first. */
  readonly recent: readonly Alert[]
}

export interface NodeSnapshot {
  /** Nodes ignore snapshots of another format. */
  readonly format: 1
  readonly node: { readonly id: string; readonly host: string; readonly pid: number }
  readonly release: string
  readonly startedAt: string
  readonly rulesVersion: number
  /** What keeps the node from the newest rules; null for nothing, absent in older releases. */
  readonly problem?: string | null | undefined
  readonly atMs: number
  readonly total: SeriesSnapshot
  readonly minutes: SeriesSnapshot
  readonly decisions: LatencySnapshot
  readonly store: LatencySnapshot
  readonly storeHealth: StoreSnapshot
  readonly rules: readonly RuleSnapshot[]
  /** The start of the period over which callers are counted. */
  readonly callersSinceMs: number
  readonly callers: readonly CallerSnapshot[]
  /** Separate, so that they do not displace `callers`; absent in older releases. */
  readonly shadowCallers?: readonly ShadowCallerSnapshot[] | undefined
  readonly alerts: AlertLists
  /** The encrypted names of callers, which the rows then lack: see published-names.ts. */
  readonly sealedNames?: string | undefined
}
