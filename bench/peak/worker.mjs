/**
 * One node of the peak benchmark: a limiter on the Redis that all nodes share, and calls that come
 * evenly, whether or not those before them are answered. Latency counts from when a call was due.
 */
import { createHistogram, performance } from 'node:perf_hooks'
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'

const { url, callers, deadlineMs } = JSON.parse(process.argv[2])
/** Due calls are sent at each tick; a late tick sends all that were due meanwhile. */
const TICK_MS = 1
/** More unanswered calls than this mean that the machine cannot sustain the rate. */
const UNANSWERED_MAX = 100_000

const store = redisStore({ url, deadlineMs })
const limiter = createLimiter({
  rules: [
    { id: 'per-user', by: ['user'], limits: ['1000000/second'] },
    {
      id: 'per-user-hourly',
      by: ['user'],
      limits: [{ algorithm: 'sliding-window-counter', max: 1_000_000_000, window: '1h' }],
    },
  ],
  store,
})
await limiter.ready()

const names = Array.from({ length: callers }, (_, n) => ({ attributes: { user: `user-${n}` } }))

process.on('message', (order) => {
  run(order).then(
    (result) => process.send(result),
    (error) => process.send({ failed: String(error) }),
  )
})
process.on('disconnect', () => process.exit())
process.send({})

/** Makes calls at this rate for this long; the figures are in microseconds. */
async function run({ rate, ms }) {
  const latency = createHistogram({ lowest: 1, highest: 60_000_000, figures: 3 })
  const total = Math.round((rate * ms) / 1000)
  const gapMs = 1000 / rate
  const cpu = process.cpuUsage()
  const sources = {}
  let sent = 0
  let answered = 0
  let refused = 0
  const startedMs = performance.now()
  await new Promise((resolve, reject) => {
    const tick = () => {
      const nowMs = performance.now()
      for (; sent < total && startedMs + sent * gapMs <= nowMs; sent++) {
        const dueMs = startedMs + sent * gapMs
        limiter.check(names[Math.floor(Math.random() * callers)]).then((decision) => {
          latency.record(Math.max(1, Math.round((performance.now() - dueMs) * 1000)))
          sources[decision.source] = (sources[decision.source] ?? 0) + 1
          if (!decision.allowed) refused += 1
          answered += 1
          if (answered === total) resolve()
        }, reject)
      }
      if (sent - answered > UNANSWERED_MAX) reject(new Error('overloaded'))
      else if (sent < total) setTimeout(tick, TICK_MS)
    }
    tick()
  })
  const seconds = (performance.now() - startedMs) / 1000
  const { user, system } = process.cpuUsage(cpu)
  return {
    calls: total,
    seconds,
    sources,
    refused,
    cpuShare: (user + system) / 1e6 / seconds,
    percentiles: [50, 90, 99, 99.9, 99.99, 100].map((p) => latency.percentile(p)),
  }
}
