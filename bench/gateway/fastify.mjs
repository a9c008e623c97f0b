/** Fastify with @fastify/rate-limit and @fastify/http-proxy, over undici's kept connections. */
import proxy from '@fastify/http-proxy'
import rateLimit from '@fastify/rate-limit'
import fastify from 'fastify'
import { callers, KEY_HEADER, PEER_MAX, PEER_WINDOW_MS } from './calls.mjs'
import { announce } from './listen.mjs'

const app = fastify({ logger: false, keepAliveTimeout: 600_000 })
await app.register(rateLimit, {
  max: PEER_MAX,
  timeWindow: PEER_WINDOW_MS,
  keyGenerator: (request) => request.headers[KEY_HEADER],
})
await app.register(proxy, {
  upstream: process.argv[2],
  disableRequestLogging: true,
  // A cache for every path of the benchmark: its manual says that parsing them is its main cost.
  cacheURLs: 2 * callers.length,
  undici: { connections: 256, pipelining: 1, keepAliveTimeout: 600_000 },
})
await app.listen({ host: '127.0.0.1', port: 0 })
announce(app.server)
