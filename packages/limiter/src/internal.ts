/**
 * Not public: parts of the engine that the simulation runs as they are, or breaks on purpose. They
 * change without notice.
 */
export { Lease } from './coordination/lease.js'
export { Holdings } from './coordination/lease-holdings.js'
export { UnreportedUsage } from './coordination/pending.js'
export { Breaker } from './redis/breaker.js'
export { type HeartbeatReply, FleetMembership } from './redis/fleet.js'
export { StoreClock } from './redis/store-clock.js'
export { PeriodicTask, type Scheduler } from './rounds.js'
