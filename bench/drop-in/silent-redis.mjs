/**
 * How long the drop-in stores take to answer while Redis is silent, with a deadline of 50 ms and
 * beside a bare timer of the same length in the same process; and what express-rate-limit does with
 * rate-limit-redis. On a Redis that is stopped the breaker answers most calls at once.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { performance } from 'node:perf_hooks'
import { SluiceStore } from '@sluice/limiter/express-rate-limit'
import { sluiceStore } from '@sluice/limiter/fastify-rate-limit'
import { SluiceThrottlerStorage } from '@sluice/limiter/nestjs-throttler'
import { RateLimiterSluice } from '@sluice/limiter/rate-limiter-flexible'
import { redisStore } from '@sluice/limiter/redis'
import { Ratelimit } from '@sluice/limiter/upstash'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { Redis } from 'ioredis'
import { RedisStore } from 'rate-limit-redis'
import { startRedis } from '../../tools/redis/server.mjs'
import { printTable } from '../report.mjs'

const DEADLINE_MS = 50
const CALLS = 200
/** After this long a request counts as unanswered. */
const GIVE_UP_MS = 5000

const sockets = new Set()
const silent = createServer((socket) => {
  sockets.add(socket)
  socket.on('error', () => {})
})
silent.listen(0, '127.0.0.1')
await once(silent, 'listening')
const { port } = silent.address()

/** One call to each drop-in store. */
function subjectsOf(subject) {
  const expressStore = new SluiceStore({ store: subject, windowMs: 60_000 })
  const fastifyStore = new (sluiceStore({ store: subject }))({})
  const storage = new SluiceThrottlerStorage({ store: subject })
  const flexible = new RateLimiterSluice({ store: subject, points: 1e9, duration: 60 })
  const upstash = new Ratelimit({ store: subject, limiter: Ratelimit.slidingWindow(1e9, '1 m') })
  return {
    '/express-rate-limit': () => expressStore.increment('k'),
    '/fastify-rate-limit': () =>
      new Promise((resolve, reject) => {
        const done = (error, hits) => (error ? reject(error) : resolve(hits))
        fastifyStore.incr('k', done, 60_000, 10)
      }),
    '/nestjs-throttler': () => storage.increment('k', 60_000, 1e9, 60_000, 'default'),
    '/rate-limiter-flexible': () => flexible.consume('k'),
    '/upstash': () => upstash.limit('k'),
  }
}

async function timed(run) {
  const sinceMs = performance.now()
  await run()
  return performance.now() - sinceMs
}

const bareTimer = () => new Promise((resolve) => setTimeout(resolve, DEADLINE_MS))

/** Each call runs beside a bare timer, which shows how late this process was itself. */
async function measure(what, subject) {
  const rows = []
  for (const [name, run] of Object.entries(subjectsOf(subject))) {
    const times = []
    const beyond = []
    for (let i = 0; i < CALLS; i++) {
      const [time, bare] = await Promise.all([timed(run), timed(bareTimer)])
      times.push(time)
      beyond.push(time - bare)
    }
    const at = (numbers, share) =>
      numbers.toSorted((a, b) => a - b)[Math.min(CALLS - 1, Math.floor(share * CALLS))].toFixed(1)
    rows.push([name, at(times, 0.5), at(times, 0.99), at(times, 1), at(beyond, 1)])
  }
  printTable([what, 'p50 ms', 'p99 ms', 'max ms', 'max beyond a timer'], rows)
}

const store = redisStore({ url: `redis://127.0.0.1:${port}`, deadlineMs: DEADLINE_MS })
await measure('a Redis that never answers', store)
const server = await startRedis()
const stopped = redisStore({ url: server.url, deadlineMs: DEADLINE_MS })
await stopped.ready
server.pause()
await measure('a Redis that is stopped', stopped)
await server.stop()

/** Milliseconds until a request through express-rate-limit is answered. */
async function timeRequest(hostStore) {
  const app = express()
  const logger = { warn: () => {}, error: () => {} }
  app.use(rateLimit({ windowMs: 60_000, limit: 10, store: hostStore, logger }))
  app.get('/', (_, response) => void response.send('ok'))
  const listener = app.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const sinceMs = performance.now()
  const answered = await fetch(`http://127.0.0.1:${listener.address().port}/`, {
    signal: AbortSignal.timeout(GIVE_UP_MS),
  }).then(
    () => `${(performance.now() - sinceMs).toFixed(1)} ms`,
    () => `none within ${GIVE_UP_MS} ms`,
  )
  listener.closeAllConnections()
  listener.close()
  return answered
}

const client = new Redis(port, '127.0.0.1')
client.on('error', () => {})
const usual = new RedisStore({ sendCommand: (...words) => client.call(...words) })
printTable(
  ['express-rate-limit with', 'first answer'],
  [
    ['@sluice/limiter/express-rate-limit', await timeRequest(new SluiceStore({ store }))],
    ['rate-limit-redis', await timeRequest(usual)],
  ],
)
process.exit(0)
