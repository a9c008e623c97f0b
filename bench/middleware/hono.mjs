/** Hono on Node, bare or with Sluice or hono-rate-limiter, with rate-limit-redis on Redis. */
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { rateLimiter } from 'hono-rate-limiter'
import { listen } from '../gateway/listen.mjs'
import { addLimiter, KEY_HEADER, order, PEER_MAX, PEER_WINDOW_MS, usualStore } from './setting.mjs'

const readKey = (context) => context.req.header(KEY_HEADER)

const app = new Hono()
await addLimiter({
  framework: 'hono',
  readKey,
  likeUsual: { legacy: false },
  addSluice: (sluice, options) => app.use(sluice(options)),
  addUsual: (client) =>
    app.use(
      rateLimiter({
        windowMs: PEER_WINDOW_MS,
        limit: PEER_MAX,
        standardHeaders: 'draft-7',
        keyGenerator: readKey,
        store: usualStore(client),
      }),
    ),
})
app.get('/v1/orders/:id', (context) => context.json(order))
listen(createAdaptorServer({ fetch: app.fetch }))
