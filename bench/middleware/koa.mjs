/** Koa, bare or with Sluice or koa-ratelimit. */
import { createServer } from 'node:http'
import Koa from 'koa'
import ratelimit from 'koa-ratelimit'
import { listen } from '../gateway/listen.mjs'
import { addLimiter, KEY_HEADER, order, PEER_MAX, PEER_WINDOW_MS } from './setting.mjs'

const readKey = (context) => context.headers[KEY_HEADER]

const app = new Koa()
await addLimiter({
  framework: 'koa',
  readKey,
  likeUsual: { standard: false },
  addSluice: (sluice, options) => app.use(sluice(options)),
  addUsual: (client) =>
    app.use(
      ratelimit({
        driver: client === undefined ? 'memory' : 'redis',
        db: client ?? new Map(),
        max: PEER_MAX,
        duration: PEER_WINDOW_MS,
        id: readKey,
      }),
    ),
})
app.use((context) => {
  context.body = order
})
const handle = app.callback()
listen(createServer((request, response) => void handle(request, response)))
