/** A typed client of the admin API, for Node and for browsers: one method for each route. */
import { type Address, readAddress } from './address.js'
import { callerRoutes } from './routes/callers.js'
import { decisionRoutes } from './routes/decisions.js'
import { keyRoutes } from './routes/keys.js'
import { ruleRoutes } from './routes/rules.js'
import { createSend, type SendOptions } from './send.js'

export interface AdminClientOptions
  extends Address,
    Pick<SendOptions, 'fetch' | 'retries' | 'timeoutMs' | 'wait'> {
  /** Of the admin listener: `http://127.0.0.1:9090`. */
  readonly url: string
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
  const send = createSend({ ...options, base: readAddress(options), token: options.token })
  return {
    ...ruleRoutes(send),
    ...callerRoutes(send),
    ...keyRoutes(send),
    ...decisionRoutes(send),
  }
}
