/**
 * Not public: parts of the engine that the simulation runs as they are, or breaks on purpose. They
 * change without notice.
 */
export { Lease } from './coordination/lease.js'
export { Holdings } from './coordination/lease-holdings.js'
export { Pending } from './coordination/pending.js'
export { Breaker } from './redis/breaker.js'
export { type Beaten, Fleet } from './redis/fleet.js'
export { StoreClock } from './redis/store-clock.js'
export { Rounds, type Scheduler } from './rounds.js'
