/** Express, bare or with Sluice or express-rate-limit, whose store on Redis is rate-limit-redis. */
import { createServer } from 'node:http'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { RedisStore } from 'rate-limit-redis'
import { sluice } from '../../packages/limiter/dist/middleware/express.js'
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

const readKey = (request) => request.headers[KEY_HEADER]

async function usual() {
  const client = await connectUsual()
  return rateLimit({
    windowMs: PEER_WINDOW_MS,
    limit: PEER_MAX,
    // The cheapest of its standard headers: draft 8 hashes the key of every call.
    standardHeaders: 'draft-7',
    legacyHeaders: false,
    keyGenerator: readKey,
    // Checks of the configuration, which a user turns off once it is right.
    validate: false,
    store: client && new RedisStore({ sendCommand: (...command) => client.call(...command) }),
  })
}

const app = express()
if (limiter === 'usual') app.use(await usual())
else if (limiter !== 'bare') {
  app.use(sluice(await sluiceOptions({ readKey, likeUsual: { legacy: false } })))
}
app.get('/v1/orders/:id', (_request, response) => response.json(order))
listen(createServer(app))
