/** Counters in Redis or Valkey. */
export type { StoreObserver } from './observer.js'
export { type Layout, type RedisClient, type RedisStoreOptions, type RedisTls } from './options.js'
export { type RedisStore, redisStore } from './redis-store.js'
export type { RedisMemoryStats, RedisNodeStats, RedisStats } from './stats.js'
