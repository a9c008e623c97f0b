/** The clock for instants in responses, such as `X-RateLimit-Reset`. */
import type { Store } from '@sluice/limiter'
import type { WallClock } from '../lib/wall-clock.js'

/**
 * Returns the best estimate of the store's time, because that decides and is the same on every
 * node; the clock of this node if the store is in this process or has never answered.
 */
export function responseClock({ remote }: Pick<Store, 'remote'>, clock: WallClock): WallClock {
  if (remote === undefined) return clock
  return {
    now() {
      const storeUs = remote.time()
      return Number.isFinite(storeUs) ? Math.floor(storeUs / 1000) : clock.now()
    },
  }
}
