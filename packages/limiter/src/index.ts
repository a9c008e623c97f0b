/** `@sluice/limiter`: the rate limiter as a library. */
export type {
  AlgorithmName,
  Attributes,
  BindingCaller,
  Call,
  CounterKey,
  Decision,
  ErrorCode,
  HeaderOptions,
  Headers,
  Limit,
  LimitExplanation,
  Outcome,
  OverrideChange,
  Policy,
  PostureName,
  Postures,
  Problem,
  ProblemBody,
  ProblemOptions,
  Reason,
  RuleExplanation,
  RuleOutcome,
  Source,
  Take,
} from '@sluice/core'
export { ERROR_CODES, jitterMs, problemBody, rateLimitHeaders, SluiceError } from '@sluice/core'
export { type Clock, systemClock } from './clock.js'
export type { InFlightStats } from './concurrency/in-flight-calls.js'
export type { CoordinationStats } from './coordination/node-decider.js'
export type {
  InspectedBlock,
  InspectedCaller,
  InspectedCounter,
  InspectedRegion,
  Inspection,
} from './inspect.js'
export { createLimiter } from './limiter.js'
export type {
  CheckOptions,
  Limiter,
  LimiterOptions,
  LimiterStats,
  RulesOptions,
} from './limiter-types.js'
export type { CounterStats } from './memory/counters.js'
export {
  MEMORY_COUNTERS_DEFAULT,
  MEMORY_COUNTERS_MAX,
  type MemoryStore,
  type MemoryStoreOptions,
  memoryStore,
} from './memory/memory-store.js'
export type { ResetOptions } from './refund.js'
export { EstimateRatios, estimateTokens, type TokenEstimate } from './reservation/estimate.js'
export type {
  ActualCosts,
  ExtendOptions,
  Reservation,
  ReserveOptions,
  SettledCost,
  Settlement,
  SettlementReason,
} from './reservation/reservation-types.js'
export type { ReservationFate, ReservationStats } from './reservation/reservation-stats.js'
export type { Load, ShedCounts, SheddingStats } from './shed/load-shedding.js'
export {
  type RegionalStore,
  type RegionalStoreOptions,
  regionalStore,
  type RegionStats,
} from './regions/regional-store.js'
export { RegionResetError } from './regions/region-reset-error.js'
export { RulesError, type RulesInput } from './rule-set.js'
export type {
  Answer,
  Charge,
  Give,
  Groups,
  HeartbeatExchange,
  Inspector,
  NodeExchange,
  PeekOutcome,
  RegionPeek,
  Remote,
  RemoteHealth,
  Silence,
  Store,
  StoredCounter,
  StoreHealth,
  StoreMemory,
  StoreNodeHealth,
  StoreNodeMemory,
  SyncStore,
  TakeOptions,
} from './store.js'
