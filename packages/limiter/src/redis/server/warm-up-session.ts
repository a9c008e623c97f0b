/** A second session over the connections of another. */
import type { NodePipeline } from '../pipeline/node-pipeline.js'
import { Router } from '../pipeline/router.js'
import { routerDeps, type RedisSession, type SessionDeps } from './redis-session.js'

/** What a store that sends batches needs from its session with the servers. */
export type StoreSession = Pick<
  RedisSession,
  'secret' | 'ready' | 'router' | 'fleetSize' | 'fleetPlace' | 'pipelines' | 'announce' | 'close'
>

/** What a store in Redis needs besides that. */
export type RedisStoreSession = StoreSession &
  Pick<RedisSession, 'exchange' | 'heartbeatExchange' | 'driver' | 'stats'>

const NO_PIPELINES: readonly NodePipeline[] = []

/**
 * Opens a session with its own router, and so its own breakers, clock estimates and bounds on
 * batches in flight. Closing it closes no connection.
 */
export function openWarmUpSession(
  session: RedisStoreSession,
  deps: SessionDeps,
): RedisStoreSession {
  const { secret, ready, exchange, heartbeatExchange, driver } = session
  const router = driver && new Router(driver, routerDeps(deps))
  return {
    secret,
    ready,
    exchange,
    heartbeatExchange,
    router,
    driver,
    fleetSize: () => session.fleetSize(),
    fleetPlace: () => session.fleetPlace(),
    pipelines: () => router?.pipelines() ?? NO_PIPELINES,
    stats: () => session.stats(),
    // Other nodes have no such counters.
    announce: () => {},
    close: async () => router?.close(),
  }
}
