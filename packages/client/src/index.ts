/**
 * Clients: of the admin API and the decision API of a Sluice server, and of any API with rate
 * limits.
 */
export { type AdminClient, type AdminClientOptions, createAdminClient } from './admin-client.js'
export {
  createDecisionClient,
  type DecisionClient,
  type DecisionClientOptions,
  type DecisionRequestOptions,
} from './decision-client.js'
export { AdminError, DecisionError, InputError, UnreachableError } from './errors.js'
export type { EventsOptions } from './events.js'
export {
  type RemoteLimiter,
  remoteLimiter,
  type RemoteLimiterStats,
} from './remote-limiter/remote-limiter.js'
export { RemoteLimiterError } from './remote-limiter/remote-limiter-error.js'
export type {
  RemoteLimiterOptions,
  RemoteLogger,
  RemoteState,
} from './remote-limiter/remote-options.js'
export type {
  ActualCosts,
  FallbackLimiter,
  RemoteCall,
  RemoteCheckOptions,
  RemoteDecision,
  RemoteExtendOptions,
  RemotePolicy,
  RemoteReservation,
  RemoteReserveOptions,
} from './remote-limiter/decision-types.js'
export { callerId } from './routes/caller-routes.js'
export type { TopQuery } from './routes/stats-routes.js'
export type {
  Change,
  PageOptions,
  HistoryOptions,
  VersionedChange,
} from './routes/route-options.js'
export type {
  ApplyOptions,
  DeleteOptions,
  RollbackOptions,
  ValidateOptions,
} from './routes/rule-routes.js'
export type { Fetch } from './exchange.js'
export type { ExpectedVersion } from './send.js'
export type { PaceClock } from './paced-fetch/clock.js'
export { createPacedFetch } from './paced-fetch/paced-fetch.js'
export {
  type CallPace,
  type PacedFetch,
  PacedFetchError,
  type PacedFetchOptions,
  type PacedFetchStats,
  type PacedInit,
  type PacedInput,
  type PaceEvents,
} from './paced-fetch/paced-fetch-options.js'
export {
  type HeaderSource,
  type RateLimitPolicy,
  type RateLimitReading,
  readRateLimit,
} from './paced-fetch/read-rate-limit.js'
export type * from './api-types.js'
