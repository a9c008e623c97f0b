/**
 * What all subjects share: one limit by API key that no caller reaches, and a handler that sends
 * an order. `node <framework>.mjs <limiter> [redis URL]`; without a URL counters are in memory.
 */
import { Redis } from 'ioredis'
import { KEY_HEADER, PEER_MAX, PEER_WINDOW_MS } from '../gateway/calls.mjs'

export { KEY_HEADER, PEER_MAX, PEER_WINDOW_MS }

/** Which limiter the subject has: `bare`, `sluice`, `sluice-like-usual` or `usual`. */
export const limiter = process.argv[2]
const redisUrl = process.argv[3]

export const order = {
  id: 42,
  status: 'shipped',
  customer: 'user-17',
  currency: 'EUR',
  total: 129.9,
  items: [
    { sku: 'A-1001', name: 'Valve, brass, 15 mm', count: 2 },
    { sku: 'B-2044', name: 'Seal ring, 15 mm', count: 8 },
  ],
  placed: '2025-01-01T10:00:00Z',
}

const rules = [{ id: 'per-key', by: ['key'], limits: [`${PEER_MAX}/hour`] }]

/** The options of Sluice: its defaults, or only the headers that the usual limiter sends. */
export async function sluiceOptions({ readKey, likeUsual }) {
  return {
    rules,
    store: await openStore(),
    // Rules by a key that callers may leave out get a warning, which is right and no news here.
    logger: { warn() {}, error: console.error },
    attributes: (request) => ({ key: readKey(request) }),
    ...(limiter === 'sluice-like-usual' && { headers: likeUsual }),
  }
}

async function openStore() {
  if (redisUrl === undefined) return undefined
  const { redisStore } = await import('../../packages/limiter/dist/redis/index.js')
  return redisStore({ url: redisUrl })
}

/** The client of a usual limiter: all commands of a turn in one write. Undefined in memory. */
export async function connectUsual() {
  if (redisUrl === undefined) return undefined
  const client = new Redis(redisUrl, { enableAutoPipelining: true, lazyConnect: true })
  await client.connect()
  return client
}

// A process that ends by itself writes its profile; one that a signal ends does not.
process.once('SIGINT', () => process.exit())
