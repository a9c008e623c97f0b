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
  /** Of the admin listener: `http://127.0.0.1:9090`. */
  readonly url: string
  /** None: a browser has a session, and its cookie says who it is. */
  readonly token?: string | undefined
  /** Sends the token without encryption, and not only to this machine. @default false */
  readonly insecure?: boolean | undefined
}

export type AdminClient = ReturnType<typeof createAdminClient>

/**
 * Methods reject with an `AdminError` where the server says no, with an `UnreachableError` where
 * nobody answers, and with an `AdminInputError` for what cannot be sent. A request that is answered
 * 429 is sent again when the server says; nothing else is ever sent twice.
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
    /** Figures, changes of rules and alerts as they come; see `followEvents`. */
    events: (following: EventsOptions) => followEvents(connection, following),
  }
}
