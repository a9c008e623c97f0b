/** The snapshot that a node publishes for the others, and the lengths of its time buckets. */
import type { Alert } from '../alerts/alert.js'

export {
  type CallerIdentity,
  type CallerSnapshot,
  type InFlightSnapshot,
  type LatencySnapshot,
  LEFT_BOUNDS,
  MINUTE_BUCKETS,
  type NodeSnapshot,
  type PrioritySnapshot,
  type RuleSnapshot,
  type SeriesSnapshot,
  type ShadowCallerSnapshot,
  SNAPSHOT_ALERTS_MAX,
  SNAPSHOT_PRIORITIES_MAX,
  SNAPSHOT_RULES_MAX,
  type StoreSnapshot,
} from '@sluice/api/node-snapshots'

/** Buckets begin at multiples of their length since 1970, so those of all nodes coincide. */
export const BUCKET_MS = 2000
export const BUCKETS = 150
export const RULE_BUCKET_MS = 10_000
export const RULE_BUCKETS = 60
/** Callers in a snapshot, for each rule and order. */
export const SNAPSHOT_CALLERS_MAX = 20

/** Alerts of one node, or of the fleet. */
export interface AlertLists {
  readonly active: readonly Alert[]
  /** Resolved alerts, the latest first. */
  readonly recent: readonly Alert[]
}
