/**
 * What a reservation costs: `reserve` and `settle` of one call against one plain exact decision of
 * the same rules, on Redis and in memory, in alternating rounds of one run.
 */
import { createLimiter, memoryStore } from '../../packages/limiter/dist/index.js'
import { redisStore } from '../../packages/limiter/dist/redis/index.js'
import { startRedis } from '../../tools/redis/server.mjs'
import { median, printTable } from '../report.mjs'

const QUICK = process.argv.includes('--quick')
const ROUNDS = QUICK ? 5 : 21
const CALLERS = 1000
/** The promise: `reserve` plus `settle` at most this many times a plain exact decision. */
const RATIO_MAX = 2.2

const rules = [
  {
    id: 'tokens',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max: 1_000_000_000, window: '1h' }],
    cost: { attribute: 'tokens' },
  },
]

const callOf = (n) => ({ attributes: { user: `u${n % CALLERS}`, tokens: 800 } })

const subjects = {
  check: async (limiter, n) => {
    const { allowed, source } = await limiter.check(callOf(n))
    if (!allowed || source !== 'store') throw new Error(`not decided by the store: ${source}`)
  },
  reserve: async (limiter, n) => {
    const reservation = await limiter.reserve(callOf(n))
    const { settled } = await reservation.settle(500 + (n % 500))
    if (!settled) throw new Error('not settled')
  },
}

async function run(limiter, subject, calls, waiting) {
  let next = 0
  const work = async () => {
    while (next < calls) await subject(limiter, next++)
  }
  await Promise.all(Array.from({ length: waiting }, work))
}

/** Medians over rounds; each round measures both subjects, in turn first. */
async function compare(limiter, { calls, waiting, redisCpuMs }) {
  const names = Object.keys(subjects)
  const found = Object.fromEntries(names.map((name) => [name, []]))
  for (const name of names) await run(limiter, subjects[name], calls, waiting)
  for (let round = 0; round < ROUNDS; round++) {
    const order = round % 2 === 0 ? names : names.toReversed()
    for (const name of order) {
      const cpu = process.cpuUsage()
      const redisBefore = redisCpuMs?.() ?? 0
      const from = performance.now()
      await run(limiter, subjects[name], calls, waiting)
      const ms = performance.now() - from
      const { user, system } = process.cpuUsage(cpu)
      found[name].push({
        us: (1000 * ms) / calls,
        cpuUs: (user + system) / calls,
        redisUs: (1000 * ((redisCpuMs?.() ?? 0) - redisBefore)) / calls,
      })
    }
  }
  const ratio = (field) =>
    median(found.reserve.map((round, i) => round[field] / found.check[i][field]))
  const middle = (name, field) => median(found[name].map((round) => round[field]))
  return { ratio, middle }
}

const rows = []
async function measure(where, limiter, options) {
  const { ratio, middle } = await compare(limiter, options)
  const us = (number) => number.toFixed(1)
  rows.push([
    where,
    us(middle('check', 'us')),
    us(middle('reserve', 'us')),
    ratio('us').toFixed(2),
    ratio('cpuUs').toFixed(2),
    options.redisCpuMs === undefined ? '' : ratio('redisUs').toFixed(2),
  ])
  return ratio('us')
}

const server = await startRedis()
const limiter = createLimiter({
  rules,
  store: redisStore({ url: server.url, deadlineMs: 10_000, denyCacheMs: 0 }),
})
const inMemory = createLimiter({ rules, store: memoryStore() })
try {
  await limiter.ready()
  const redisCpuMs = () => server.cpuMs()
  const scale = QUICK ? 0.2 : 1
  const ratios = [
    await measure('Redis, one at a time', limiter, { calls: 5000 * scale, waiting: 1, redisCpuMs }),
    await measure('Redis, 16 waiting', limiter, { calls: 20_000 * scale, waiting: 16, redisCpuMs }),
    await measure('Redis, 256 waiting', limiter, {
      calls: 40_000 * scale,
      waiting: 256,
      redisCpuMs,
    }),
  ]
  await measure('memory', inMemory, { calls: 50_000 * scale, waiting: 1 })
  printTable(
    ['', 'check, us', 'reserve + settle, us', 'ratio', 'ratio of CPU', 'ratio of Redis CPU'],
    rows,
  )
  const worst = Math.max(...ratios)
  console.log(`\non Redis at most ${RATIO_MAX} wanted: ${worst.toFixed(2)} found`)
} finally {
  await limiter.close()
  await inMemory.close()
  await server.stop()
}
