/** Counters in Redis or Valkey. */
export { DEFAULT_DEADLINE_MS } from '../deadline.js'
export type { FleetBoard } from './board.js'
export type { StoreObserver } from './observer.js'
export { type Layout, type RedisClient, type RedisStoreOptions, type RedisTls } from './options.js'
export { type RedisStore, redisStore } from './redis-store.js'
export { STORE_ACL, storeAcl } from './acl.js'
export type { RedisMemoryStats, RedisNodeMemory, RedisNodeStats, RedisStats } from './stats.js'
export { describeTarget, parseRedisUrl, type RedisTarget } from './url.js'
