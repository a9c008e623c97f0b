/** Talks to a Sluice server. */
export { type AdminClient, type AdminClientOptions, createAdminClient } from './admin-client.js'
export { AdminError, AdminInputError, UnreachableError } from './errors.js'
export type { EventsOptions } from './events.js'
export { callerId } from './routes/callers.js'
export type { CallInput } from './routes/decisions.js'
export type { TopQuery } from './routes/figures.js'
export type {
  Change,
  ChangeResult,
  PageOptions,
  HistoryOptions,
  VersionedChange,
} from './routes/options.js'
export type {
  ApplyOptions,
  DeleteOptions,
  RollbackOptions,
  ValidateOptions,
} from './routes/rules.js'
export type { Fetch, ExpectedVersion } from './send.js'
export type * from './types.js'
