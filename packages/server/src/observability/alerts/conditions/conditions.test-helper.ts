/** Redis nodes as the store reports them. */
import type { StoreNodeHealth } from '@sluice/limiter'

const NODE: StoreNodeHealth = {
  address: '10.0.0.1:6379',
  isAnswering: true,
  isBreakerOpen: false,
  breakerOpened: 0,
  clock: { offsetSeconds: 0, errorSeconds: 0 },
  inFlight: 0,
  queuedTakes: 0,
}

export function nodeWith(node: Partial<StoreNodeHealth> = {}): StoreNodeHealth {
  return { ...NODE, ...node }
}
