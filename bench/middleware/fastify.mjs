/** Fastify, bare or with Sluice or @fastify/rate-limit. */
import rateLimit from '@fastify/rate-limit'
import fastify from 'fastify'
import { announce } from '../gateway/listen.mjs'
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

const app = fastify({ logger: false, keepAliveTimeout: 600_000 })
if (limiter === 'usual') {
  await app.register(rateLimit, {
    max: PEER_MAX,
    timeWindow: PEER_WINDOW_MS,
    keyGenerator: readKey,
    redis: await connectUsual(),
  })
} else if (limiter !== 'bare') {
  const { sluice } = await import('../../packages/limiter/dist/middleware/fastify.js')
  await app.register(sluice, await sluiceOptions({ readKey, likeUsual: { standard: false } }))
}
app.get('/v1/orders/:id', (_request, reply) => reply.send(order))
await app.listen({ host: '127.0.0.1', port: 0 })
announce(app.server)
