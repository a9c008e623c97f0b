/** Nodes of the store that are not asked, because they did not answer. */
import type { RedisNodeStats } from '@sluice/limiter/redis'
import type { Finding } from '../alert.js'

export function findOpenBreakers(nodes: readonly RedisNodeStats[]): readonly Finding[] {
  return nodes
    .filter(({ isBreakerOpen }) => isBreakerOpen)
    .map(({ address, breakerOpened }) => ({
      ...openBreaker(address),
      details: { store: address, opened: breakerOpened },
    }))
}

export function openBreaker(store: string): Finding {
  const summary = `Redis at ${store} does not answer in time; rules answer by their posture.`
  return { subject: store, summary, details: { store } }
}
