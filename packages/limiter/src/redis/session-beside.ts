/** A second way to the nodes of a session, over the same connections. */
import type { Lane } from './lane.js'
import { Router } from './router.js'
import { routerParts, type Session, type SessionParts } from './session.js'

/** What a store needs of its session. */
export type StoreSession = Pick<
  Session,
  | 'secret'
  | 'ready'
  | 'board'
  | 'router'
  | 'driver'
  | 'fleetSize'
  | 'fleetPlace'
  | 'lanes'
  | 'stats'
  | 'announce'
  | 'close'
>

const NO_LANES: readonly Lane[] = []

/**
 * Opens a session that has a router of its own, and so its own breakers, clock bounds and bounds on
 * what is in flight. Closing it closes no connection.
 */
export function openSessionBeside(session: StoreSession, parts: SessionParts): StoreSession {
  const { secret, ready, board, driver } = session
  const router = driver && new Router(driver, routerParts(parts))
  return {
    secret,
    ready,
    board,
    router,
    driver,
    fleetSize: () => session.fleetSize(),
    fleetPlace: () => session.fleetPlace(),
    lanes: () => router?.lanes() ?? NO_LANES,
    stats: () => session.stats(),
    // Other nodes know nothing of these counters.
    announce: () => {},
    close: async () => router?.close(),
  }
}
