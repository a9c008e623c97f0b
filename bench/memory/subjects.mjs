/**
 * What is measured: one decision per call, callers named in place. Every subject counts 1,000 an
 * hour per user, so that all do the same work and none refuses.
 */
import { memoryStore, createLimiter } from '../../packages/limiter/dist/index.js'

const MAX = 1000
const WINDOW_MS = 3_600_000

function sluice() {
  const store = memoryStore({ maxCounters: 2_000_000 })
  const rules = [
    {
      id: 'per-user',
      by: ['user'],
      limits: [{ algorithm: 'fixed-window', max: MAX, window: '1h' }],
    },
  ]
  return createLimiter({ store, rules })
}

export const subjects = {
  'Map get and set (floor)': async () => {
    const counts = new Map()
    return (name) => {
      const seen = counts.get(name)
      counts.set(name, { count: (seen?.count ?? 0) + 1, at: 0 })
    }
  },
  'rate-limiter-flexible': async () => {
    const { RateLimiterMemory } = await import('rate-limiter-flexible')
    const limiter = new RateLimiterMemory({ points: MAX, duration: WINDOW_MS / 1000 })
    return (name) => limiter.consume(name)
  },
  'express-rate-limit': async () => {
    const { MemoryStore } = await import('express-rate-limit')
    const store = new MemoryStore()
    store.init({ windowMs: WINDOW_MS })
    return (name) => store.increment(name)
  },
  'Sluice checkSync': async () => {
    const limiter = sluice()
    return (name) => {
      limiter.checkSync({ attributes: { user: name } })
    }
  },
  'Sluice check (awaited)': async () => {
    const limiter = sluice()
    return (name) => limiter.check({ attributes: { user: name } })
  },
}
