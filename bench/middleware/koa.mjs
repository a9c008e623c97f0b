/** Koa, bare or with Sluice or koa-ratelimit. */
import { createServer } from 'node:http'
import Koa from 'koa'
import ratelimit from 'koa-ratelimit'
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

const readKey = (context) => context.headers[KEY_HEADER]

async function usual() {
  const client = await connectUsual()
  return ratelimit({
    driver: client === undefined ? 'memory' : 'redis',
    db: client ?? new Map(),
    max: PEER_MAX,
    duration: PEER_WINDOW_MS,
    id: readKey,
  })
}

const app = new Koa()
if (limiter === 'usual') app.use(await usual())
else if (limiter !== 'bare') {
  const { sluice } = await import('../../packages/limiter/dist/middleware/koa.js')
  app.use(sluice(await sluiceOptions({ readKey, likeUsual: { standard: false } })))
}
app.use((context) => {
  context.body = order
})
const handle = app.callback()
listen(createServer((request, response) => void handle(request, response)))
