/** A second way to the nodes of a session, over the same connections. */
import type { NodePipeline } from '../pipeline/node-pipeline.js'
import { Router } from '../pipeline/router.js'
import { routerDeps, type RedisSession, type SessionDeps } from './redis-session.js'

/** What a store needs of its session. */
export type StoreSession = Pick<
  RedisSession,
  | 'secret'
  | 'ready'
  | 'exchange'
  | 'router'
  | 'driver'
  | 'fleetSize'
  | 'fleetPlace'
  | 'pipelines'
  | 'stats'
  | 'announce'
  | 'close'
>

const NO_PIPELINES: readonly NodePipeline[] = []

/**
 * Opens a session that has a router of its own, and so its own breakers, clock bounds and bounds on
 * what is in flight. Closing it closes no connection.
 */
export function openWarmUpSession(session: StoreSession, deps: SessionDeps): StoreSession {
  const { secret, ready, exchange, driver } = session
  const router = driver && new Router(driver, routerDeps(deps))
  return {
    secret,
    ready,
    exchange,
    router,
    driver,
    fleetSize: () => session.fleetSize(),
    fleetPlace: () => session.fleetPlace(),
    pipelines: () => router?.pipelines() ?? NO_PIPELINES,
    stats: () => session.stats(),
    // Other nodes know nothing of these counters.
    announce: () => {},
    close: async () => router?.close(),
  }
}
