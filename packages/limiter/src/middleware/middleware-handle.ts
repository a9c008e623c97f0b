/** What the function of every middleware has beside itself. */
import type { CallLimiter } from './middleware-options.js'

export interface MiddlewareHandle {
  /** Decides the calls: for `peek`, `reset` and the like. */
  readonly limiter: CallLimiter
  /** Stops following the rules, and closes the limiter and store of `rules`. */
  close(): Promise<void>
}

/** Adds the handle to the function of a middleware. */
export function withHandle<Middleware extends object>(
  middleware: Middleware,
  requests: MiddlewareHandle,
): Middleware & MiddlewareHandle {
  return Object.assign(middleware, {
    limiter: requests.limiter,
    close: () => requests.close(),
  })
}
