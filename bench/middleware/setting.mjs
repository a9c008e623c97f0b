/**
 * What all subjects share: one limit by API key that no caller reaches, and a handler that sends
 * an order. `node <framework>.mjs <limiter> [redis URL]`; without a URL counters are in memory.
 */
import { Redis } from 'ioredis'
import { RedisStore } from 'rate-limit-redis'
import { PEER_MAX } from '../gateway/calls.mjs'

export { KEY_HEADER, order, PEER_MAX, PEER_WINDOW_MS } from '../gateway/calls.mjs'

/** Which limiter the subject has: `bare`, `sluice`, `sluice-like-usual` or `usual`. */
const limiter = process.argv[2]
const redisUrl = process.argv[3]

const rules = [{ id: 'per-key', by: ['key'], limits: [`${PEER_MAX}/hour`] }]

/**
 * Adds the limiter of the subject to an application: `addUsual` that of the framework, on a client
 * of Redis or in memory; `addSluice` that of Sluice. `likeUsual` are the headers that the usual
 * limiter sends too.
 */
export async function addLimiter({ framework, readKey, likeUsual, addUsual, addSluice }) {
  if (limiter === 'bare') return
  if (limiter === 'usual') return addUsual(await connectUsual())
  const file = `../../packages/limiter/dist/middleware/${framework}.js`
  const { sluice } = await import(file)
  return addSluice(sluice, {
    rules,
    store: await openStore(),
    // Rules by a key that callers may leave out get a warning, which is right and no news here.
    logger: { warn() {}, error: console.error },
    attributes: (request) => ({ key: readKey(request) }),
    ...(limiter === 'sluice-like-usual' && { headers: likeUsual }),
  })
}

async function openStore() {
  if (redisUrl === undefined) return undefined
  const { redisStore } = await import('../../packages/limiter/dist/redis/index.js')
  return redisStore({ url: redisUrl })
}

/** The client of a usual limiter: all commands of a turn in one write. Undefined in memory. */
async function connectUsual() {
  if (redisUrl === undefined) return undefined
  const client = new Redis(redisUrl, { enableAutoPipelining: true, lazyConnect: true })
  await client.connect()
  return client
}

/** The store of express-rate-limit and hono-rate-limiter; undefined for their own in memory. */
export function usualStore(client) {
  return client && new RedisStore({ sendCommand: (...command) => client.call(...command) })
}

// A process that ends by itself writes its profile; one that a signal ends does not.
process.once('SIGINT', () => process.exit())
