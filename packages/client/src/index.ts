/** Clients of the admin API and of the decision API of a Sluice server. */
export { type AdminClient, type AdminClientOptions, createAdminClient } from './admin-client.js'
export {
  createDecisionClient,
  type DecisionClient,
  type DecisionClientOptions,
  type DecisionRequestOptions,
} from './decision-client.js'
export { AdminError, DecisionError, InputError, UnreachableError } from './errors.js'
export type { EventsOptions } from './events.js'
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
export type * from './api-types.js'
