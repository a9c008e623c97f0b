/**
 * A Redis that accepts connections and commands and never answers, inside Express: how long a
 * request waits with express-rate-limit on rate-limit-redis, with the store of Sluice in
 * express-rate-limit, and with Sluice's middleware. It hangs from the start, or while it is used.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { Redis } from 'ioredis'
import { RedisStore } from 'rate-limit-redis'
import { SluiceStore } from '../../packages/limiter/dist/drop-in/express-rate-limit.js'
import { sluice } from '../../packages/limiter/dist/middleware/express.js'
import { redisStore } from '../../packages/limiter/dist/redis/index.js'
import { startRedis } from '../../tools/redis/server.mjs'
import { printTable } from '../report.mjs'

const DEADLINE_MS = 50
/** How much longer than the deadline a request may take. */
const GRACE_MS = 25
const PATIENCE_MS = 2000
const REQUESTS = 20
const LIMIT = 1000
/** Before the first request, while clients load and connect: a server takes as long to start. */
const START_MS = 500

const quiet = { warn() {}, error() {} }
const limiters = {
  'express-rate-limit with rate-limit-redis': (url) => {
    const client = new Redis(url)
    client.on('error', () => {})
    const store = new RedisStore({ sendCommand: (...command) => client.call(...command) })
    const middleware = rateLimit({ limit: LIMIT, validate: false, logger: quiet, store })
    return { middleware, close: () => client.disconnect() }
  },
  'express-rate-limit with the store of Sluice': (url) => {
    const counters = redisStore({ url, deadlineMs: DEADLINE_MS })
    const store = new SluiceStore({ store: counters })
    const middleware = rateLimit({ limit: LIMIT, validate: false, logger: quiet, store })
    return { middleware, close: () => counters.close() }
  },
  'Sluice, middleware': (url) => {
    const store = redisStore({ url, deadlineMs: DEADLINE_MS })
    const rules = [{ id: 'per-ip', by: ['ip'], limits: [`${LIMIT}/minute`] }]
    const middleware = sluice({ rules, store, logger: quiet })
    return { middleware, close: () => middleware.close() }
  },
}

const rows = []
for (const [name, open] of Object.entries(limiters)) {
  for (const hangs of ['from the start', 'while it is used']) {
    rows.push([name, hangs, ...(await measure(open, hangs === 'from the start'))])
  }
}
console.log(`${REQUESTS} requests, one after another, deadline ${DEADLINE_MS} ms\n`)
printTable(['', 'Redis hangs', 'slowest request', 'target', ''], rows)
process.exit()

async function measure(open, isSilentAtStart) {
  const redis = await startRedis()
  if (isSilentAtStart) redis.pause()
  const { middleware, close } = open(redis.url)
  const app = express()
  // Without a limit, for the first requests of a process, which compile the client and Express.
  app.get('/free', (_request, response) => response.json({ ok: true }))
  app.use(middleware, (_request, response) => response.json({ ok: true }))
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${server.address().port}`
  for (let i = 0; i < REQUESTS; i++) await fetch(`${url}/free`).then((answer) => answer.text())
  await sleep(START_MS)
  if (!isSilentAtStart) {
    const { status } = await fetch(url)
    if (status !== 200) throw new Error(`before Redis hangs: status ${status}`)
    redis.pause()
  }
  const slowest = await slowestOf(url)
  server.closeAllConnections()
  server.close()
  redis.resume()
  await close()
  await redis.stop()
  return slowest
}

async function slowestOf(url) {
  let slowestMs = 0
  for (let i = 0; i < REQUESTS; i++) {
    const started = performance.now()
    try {
      await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) }).then((answer) => answer.text())
    } catch {
      return [`no answer after ${PATIENCE_MS} ms`, '', '']
    }
    slowestMs = Math.max(slowestMs, performance.now() - started)
  }
  const most = DEADLINE_MS + GRACE_MS
  return [
    `${slowestMs.toFixed(1)} ms`,
    `at most ${most} ms`,
    slowestMs <= most ? 'reached' : 'NOT reached',
  ]
}
