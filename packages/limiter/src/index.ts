/** The library of Sluice. */
export type {
  AlgorithmName,
  Attributes,
  Bound,
  Call,
  CounterKey,
  Decision,
  ErrorCode,
  HeaderOptions,
  Headers,
  Limit,
  LimitExplained,
  Outcome,
  Policy,
  Problem,
  ProblemBody,
  ProblemOptions,
  Reason,
  RuleExplained,
  RuleOutcome,
  Source,
  Take,
} from '@sluice/core'
export { ERROR_CODES, jitterMs, problemBody, rateLimitHeaders, SluiceError } from '@sluice/core'
export { type Clock, systemClock } from './clock.js'
export {
  type CheckOptions,
  createLimiter,
  type Limiter,
  type LimiterOptions,
  type RulesOptions,
} from './limiter.js'
export type { CounterStats } from './memory/counters.js'
export { type MemoryStore, type MemoryStoreOptions, memoryStore } from './memory/memory-store.js'
export type { ResetOptions } from './refund.js'
export { RulesError, type RulesInput } from './rule-set.js'
export type { Charge, Give, Peeked, Store, SyncStore } from './store.js'
