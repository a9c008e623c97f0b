/** Fastify, bare or with Sluice or @fastify/rate-limit. */
import rateLimit from '@fastify/rate-limit'
import fastify from 'fastify'
import { announce } from '../gateway/listen.mjs'
import { addLimiter, KEY_HEADER, order, PEER_MAX, PEER_WINDOW_MS } from './setting.mjs'

const readKey = (request) => request.headers[KEY_HEADER]

const app = fastify({ logger: false, keepAliveTimeout: 600_000 })
await addLimiter({
  framework: 'fastify',
  readKey,
  likeUsual: { standard: false },
  addSluice: (sluice, options) => app.register(sluice, options),
  addUsual: (client) =>
    app.register(rateLimit, {
      max: PEER_MAX,
      timeWindow: PEER_WINDOW_MS,
      keyGenerator: readKey,
      redis: client,
    }),
})
app.get('/v1/orders/:id', (_request, reply) => reply.send(order))
await app.listen({ host: '127.0.0.1', port: 0 })
announce(app.server)
