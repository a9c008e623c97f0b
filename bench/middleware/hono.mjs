/** Hono on Node, bare or with Sluice or hono-rate-limiter, with rate-limit-redis on Redis. */
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { rateLimiter } from 'hono-rate-limiter'
import { RedisStore } from 'rate-limit-redis'
import { listen } from '../gateway/listen.mjs'
import {
  connectUsual,
  KEY_HEADER,
  limiter,
  order,
  PEER_MAX,
  PEER_WINDOW_MS,
  sluiceOptions,
} from './setting.mjs'

const readKey = (context) => context.req.header(KEY_HEADER)

async function usual() {
  const client = await connectUsual()
  return rateLimiter({
    windowMs: PEER_WINDOW_MS,
    limit: PEER_MAX,
    standardHeaders: 'draft-7',
    keyGenerator: readKey,
    store: client && new RedisStore({ sendCommand: (...command) => client.call(...command) }),
  })
}

const app = new Hono()
if (limiter === 'usual') app.use(await usual())
else if (limiter !== 'bare') {
  const { sluice } = await import('../../packages/limiter/dist/middleware/hono.js')
  app.use(sluice(await sluiceOptions({ readKey, likeUsual: { legacy: false } })))
}
app.get('/v1/orders/:id', (context) => context.json(order))
listen(createAdaptorServer({ fetch: app.fetch }))
