/** Counters in Redis or Valkey. */
export { DEFAULT_DEADLINE_MS } from '../store.js'
export type { StoreObserver } from './pipeline/redis-observer.js'
export {
  type Layout,
  type RedisClient,
  type RedisStoreOptions,
  type RedisTls,
} from './redis-options.js'
export { type RedisStore, redisStore } from './redis-store.js'
export { GUEST_ACL, guestAcl, STORE_ACL, storeAcl } from './server/store-acl.js'
export type {
  RedisMemoryStats,
  RedisNodeMemory,
  RedisNodeStats,
  RedisStats,
} from './server/redis-stats.js'
export { describeTarget, parseRedisUrl, type RedisTarget } from './connection/redis-target.js'
