/**
 * The snapshot that a node publishes for the others: counts by time bucket, its top callers, its
 * view of the store, its alerts. It is JSON, and bounded. Fields keep the names of released
 * formats (`steps`, `zeroSinceMs`).
 *
 * A node validates the snapshots of others by hand (`validate-snapshot.ts` of the server), because
 * a schema takes seven times as long. A test there holds the validator to these schemas.
 */
import { z } from 'zod'
import { alertView } from './alerts.js'
import type { Input } from './schema.js'

export const MINUTE_BUCKETS = 360
/** Rules in a snapshot: those with most refusals, then those with most decisions. */
export const SNAPSHOT_RULES_MAX = 200
/** As many as a rule set may have. */
export const SNAPSHOT_PRIORITIES_MAX = 8
/** Alerts in a snapshot: the most urgent active ones, and the last resolved ones. */
export const SNAPSHOT_ALERTS_MAX = 50
/** More than a node can publish for its rules and orders. */
export const SNAPSHOT_CALLER_ROWS_MAX = 100_000
/** Upper bounds of remaining shares: 0, up to 0.1, 0.25, 0.5, 0.75, and more. */
export const LEFT_BOUNDS = [0, 0.1, 0.25, 0.5, 0.75, 1] as const
/** Bounds of one histogram. */
export const LATENCY_BOUNDS_MAX = 64
export const STORE_NODES_MAX = 1000
/** Items of one list in the details of an alert. */
export const ALERT_DETAILS_MAX = 1000
/** The last instant of a date, in milliseconds since 1970. */
export const TIME_MAX = 8.64e15

const count = z.number().min(0)
const whole = z.int().min(0)
const time = z.number().min(0).max(TIME_MAX)
const counts = z.array(count).max(MINUTE_BUCKETS)

/** Counts of complete buckets, the oldest first. `end` is the number after the last bucket. */
const seriesSnapshot = z
  .object({
    end: whole,
    allowed: counts,
    refused: counts,
    shadowRefused: counts,
    degraded: counts,
  })
  .refine(({ allowed, refused, shadowRefused, degraded }) =>
    [refused, shadowRefused, degraded].every(({ length }) => length === allowed.length),
  )
export type SeriesSnapshot = Input<typeof seriesSnapshot>

/** A histogram for each complete bucket of `BUCKET_MS`, as sparse pairs. */
const latencySnapshot = z.object({
  /** In seconds, ascending; there is one more count for values above the last. */
  bounds: z.array(count).max(LATENCY_BOUNDS_MAX),
  /** For each bucket, `[place, count, place, count, ...]`. */
  steps: z
    .array(
      z
        .array(whole)
        .max(2 * (LATENCY_BOUNDS_MAX + 1))
        .refine(({ length }) => length % 2 === 0),
    )
    .max(MINUTE_BUCKETS),
})
export type LatencySnapshot = Input<typeof latencySnapshot>

const ruleSnapshot = z.object({
  rule: z.string(),
  series: seriesSnapshot,
  candidate: seriesSnapshot.nullable(),
  refusingSinceMs: time.nullable(),
  /** The sketch of its distinct callers in five minutes, encoded; null if not counted. */
  sketch: z.string().nullable(),
  /** Decisions of the last ten minutes, by `LEFT_BOUNDS`. */
  left: z.array(count).max(LEFT_BOUNDS.length),
})
export type RuleSnapshot = Input<typeof ruleSnapshot>

/** Calls of one priority: admitted as `allowed`, shed as `refused`. */
const prioritySnapshot = z.object({ priority: z.string(), series: seriesSnapshot })
export type PrioritySnapshot = Input<typeof prioritySnapshot>

/** The calls in flight that a rule with `algorithm: concurrency` counts on this node. */
const inFlightSnapshot = z.object({
  rule: z.string(),
  inFlight: count,
  /** The most at a tick of the last hour. */
  peak: count,
  max: count,
  /** Whether each node, or each caller, has this `max` for itself. */
  isPerNode: z.boolean(),
  isPerCaller: z.boolean(),
  /** The ceilings of priorities that are below `max`. */
  ceilings: z
    .array(z.object({ priority: z.string(), ceiling: count }))
    .max(SNAPSHOT_PRIORITIES_MAX),
})
export type InFlightSnapshot = Input<typeof inFlightSnapshot>

/** What identifies a caller of a rule, and when it was last seen. */
const callerIdentity = z.object({
  rule: z.string(),
  hash: z.string(),
  caller: z.record(z.string(), z.string()),
  plan: z.string().nullable(),
  /** Whether the rule has one counter for all of its calls. */
  isEverybody: z.boolean().optional(),
  /** A recent call that was refused, or would have been; absent in snapshots of older releases. */
  lastRefusedCall: z.string().nullable().optional(),
  lastSeenMs: time,
})
export type CallerIdentity = Input<typeof callerIdentity>

const callerSnapshot = z.object({
  ...callerIdentity.shape,
  refusals: count,
  refusalsError: count,
  use: count,
  useError: count,
  zeroSinceMs: time.nullable(),
  /** Whether its limits had refilled by the node's estimate, because it made no more calls. */
  isRefilled: z.boolean().optional(),
  /** Bit i is set if it reached its limit in the hour i hours ago. */
  hours: whole,
})
export type CallerSnapshot = Input<typeof callerSnapshot>

/** A caller that a rule in shadow mode, or a candidate, would have refused. */
const shadowCallerSnapshot = z.object({
  ...callerIdentity.shape,
  shadowRefusals: count,
  shadowRefusalsError: count,
  candidateRefusals: count,
  candidateRefusalsError: count,
})
export type ShadowCallerSnapshot = Input<typeof shadowCallerSnapshot>

const storeSnapshot = z.object({
  name: z.string(),
  state: z.string(),
  isWell: z.boolean(),
  counters: count.nullable(),
  memoryBytes: count.nullable(),
  memoryMaxBytes: count.nullable(),
  evicted: count,
  nodes: z
    .array(
      z.object({
        address: z.string(),
        isAnswering: z.boolean(),
        isBreakerOpen: z.boolean(),
        clockOffsetMs: z.number().nullable(),
      }),
    )
    .max(STORE_NODES_MAX),
})
export type StoreSnapshot = Input<typeof storeSnapshot>

const detail = z.union([z.string(), z.number(), z.array(z.string()).max(ALERT_DETAILS_MAX)])
const alerts = z
  .array(z.object({ ...alertView.shape, details: z.record(z.string(), detail) }))
  .max(SNAPSHOT_ALERTS_MAX)

export const nodeSnapshot = z.object({
  /** Nodes ignore snapshots of another format. */
  format: z.literal(1),
  node: z.object({ id: z.string(), host: z.string(), pid: count }),
  release: z.string(),
  startedAt: z.string(),
  rulesVersion: count,
  /** What keeps the node from the newest rules; null for nothing, absent in older releases. */
  problem: z.string().nullable().optional(),
  atMs: time,
  total: seriesSnapshot,
  minutes: seriesSnapshot,
  decisions: latencySnapshot,
  store: latencySnapshot,
  storeHealth: storeSnapshot,
  rules: z.array(ruleSnapshot).max(SNAPSHOT_RULES_MAX),
  /** The most important first; absent in older releases. */
  priorities: z.array(prioritySnapshot).max(SNAPSHOT_PRIORITIES_MAX).optional(),
  /** Absent in older releases. */
  inFlight: z.array(inFlightSnapshot).max(SNAPSHOT_RULES_MAX).optional(),
  /** The start of the period over which callers are counted. */
  callersSinceMs: time,
  callers: z.array(callerSnapshot).max(SNAPSHOT_CALLER_ROWS_MAX),
  /** Separate, so that they do not displace `callers`; absent in older releases. */
  shadowCallers: z.array(shadowCallerSnapshot).max(SNAPSHOT_CALLER_ROWS_MAX).optional(),
  /** Active alerts, and resolved ones, the latest first. */
  alerts: z.object({ active: alerts, recent: alerts }),
  /** The encrypted names of callers, which the rows then lack: see published-names.ts. */
  sealedNames: z.string().optional(),
})
export type NodeSnapshot = Input<typeof nodeSnapshot>
