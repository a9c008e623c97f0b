/** The clock of what responses say as an instant, such as `X-RateLimit-Reset`. */
import type { Store } from '@sluice/limiter'
import type { WallClock } from '../lib/wall-clock.js'

/**
 * Tells the store's time as well as it is known, because that is the time that counts and the same
 * on every node; the clock of this node where the store is in this process or has never answered.
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
