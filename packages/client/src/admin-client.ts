/** A typed client of the admin API, for Node and for browsers: one method for each route. */
import { type Address, readAddress } from './address.js'
import { type EventsOptions, followEvents } from './events.js'
import { callerRoutes } from './routes/caller-routes.js'
import { decisionRoutes } from './routes/decision-routes.js'
import { statsRoutes } from './routes/stats-routes.js'
import { keyRoutes } from './routes/key-routes.js'
import { ruleRoutes } from './routes/rule-routes.js'
import { sessionRoutes } from './routes/session-routes.js'
import { createSend, type SendOptions } from './send.js'

export interface AdminClientOptions
  extends Address,
    Pick<SendOptions, 'csrf' | 'fetch' | 'retries' | 'timeoutMs' | 'wait'> {
  /** The URL of the admin listener: `http://127.0.0.1:9090`. */
  readonly url: string
  /** Undefined in a browser, whose session cookie identifies it. */
  readonly token?: string | undefined
  /** Sends the token over plain HTTP to other machines than this one too. @default false */
  readonly insecure?: boolean | undefined
}

export type AdminClient = ReturnType<typeof createAdminClient>

/**
 * Methods reject with an `AdminError` if the server refuses, with an `UnreachableError` if it does
 * not answer, and with an `InputError` for input that cannot be sent. A request that is
 * answered 429 is retried after the time in the response; no other request is sent twice.
 */
export function createAdminClient(options: AdminClientOptions) {
  const connection = { ...options, base: readAddress(options), token: options.token }
  const send = createSend(connection)
  return {
    ...ruleRoutes(send),
    ...callerRoutes(send),
    ...keyRoutes(send),
    ...decisionRoutes(send),
    ...statsRoutes(send),
    ...sessionRoutes(send),
    /** Follows statistics, changes of rules and alerts as they happen; see `followEvents`. */
    events: (following: EventsOptions) => followEvents(connection, following),
  }
}
