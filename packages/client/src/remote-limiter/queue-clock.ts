/** The clock and the timers of the system, as the remote limiter uses them. */
import type { QueueTimers } from './request-queue.js'

/** What only some runtimes have; browsers, which share these types, have neither. */
interface RuntimeGlobals {
  readonly navigator?: { readonly userAgent?: string }
  readonly setImmediate?: (run: () => void) => unknown
}

const { navigator: agent, setImmediate: runAfterRead } = globalThis as RuntimeGlobals

/**
 * Workers bind a promise to the request that made it, so that calls of two requests may not share a
 * list there; all calls of one request in a turn are made before the next microtask.
 */
const isWorkers = agent?.userAgent === 'Cloudflare-Workers'

/** Node's event loop runs timers, reads sockets, and then runs `setImmediate`. */
const afterRead = (run: () => void): void => {
  if (runAfterRead === undefined) setTimeout(run, 0)
  else runAfterRead(run)
}

export const SYSTEM_TIMERS: QueueTimers = {
  nowMs: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
  endOfTurn: runAfterRead === undefined || isWorkers ? (run) => queueMicrotask(run) : afterRead,
  afterRead,
}
