/** Express, bare or with Sluice or express-rate-limit, whose store on Redis is rate-limit-redis. */
import { createServer } from 'node:http'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { listen } from '../gateway/listen.mjs'
import { addLimiter, KEY_HEADER, order, PEER_MAX, PEER_WINDOW_MS, usualStore } from './setting.mjs'

const readKey = (request) => request.headers[KEY_HEADER]

const app = express()
await addLimiter({
  framework: 'express',
  readKey,
  likeUsual: { legacy: false },
  addSluice: (sluice, options) => app.use(sluice(options)),
  addUsual: (client) =>
    app.use(
      rateLimit({
        windowMs: PEER_WINDOW_MS,
        limit: PEER_MAX,
        // The cheapest of its standard headers: draft 8 hashes the key of every call.
        standardHeaders: 'draft-7',
        legacyHeaders: false,
        keyGenerator: readKey,
        // Checks of the configuration, which a user turns off once it is right.
        validate: false,
        store: usualStore(client),
      }),
    ),
})
app.get('/v1/orders/:id', (_request, response) => response.json(order))
listen(createServer(app))
