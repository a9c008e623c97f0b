/**
 * Not public: parts of the engine that the server and the simulation use. They change without
 * notice.
 */
export { Places } from './concurrency/places.js'
export { RecordUpkeep } from './concurrency/record-upkeep.js'
export { Lease } from './coordination/lease/lease.js'
export { Holdings } from './coordination/lease/lease-holdings.js'
export { UnreportedUsage } from './coordination/local/unreported-usage.js'
export { DenyCache } from './deny-cache.js'
export { type FileWatcher, watchFile } from './fs/file-watcher.js'
export { readIdentity, readWholeFile } from './fs/read-whole-file.js'
export { createHeldCalls, type HeldCalls } from './held-calls.js'
export { SettlementPlan } from './reservation/settlement.js'
export { findLimit } from './refund.js'
export { Breaker } from './redis/pipeline/breaker.js'
export { type HeartbeatReply, FleetMembership } from './redis/server/fleet-membership.js'
export { StoreClock } from './redis/server/store-clock.js'
export {
  type JoinedAnswer,
  JoinedPlan,
  type KnownOutcome,
  leftBefore,
} from './planned/joined-plan.js'
export { combineSpread } from './shed/combine-spread.js'
export {
  type CallPlanner,
  decidePlanned,
  type PlannedCalls,
  type PlannedOptions,
} from './planned/planned-calls.js'
export { PeriodicTask, type Scheduler, systemScheduler } from './periodic.js'
export { Outbox } from './regions/outbox.js'
export { RegionLink } from './regions/region-link.js'
