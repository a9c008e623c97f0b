/**
 * 10^7 unique callers against a store of 2 million counters: how much the process grows, and
 * whether callers that were blocked at the start still are. Then growth to 5 million counters: the
 * slowest call.
 */
import { createLimiter, memoryStore } from '../../packages/limiter/dist/index.js'
import { printTable } from '../report.mjs'

const CAPACITY = 2_000_000
const CALLERS = 10_000_000
const BLOCKED = 1000
const MIB = 2 ** 20

const rules = [
  { id: 'per-user', by: ['user'], limits: [{ algorithm: 'fixed-window', max: 5, window: '1d' }] },
]
const call = (name, cost) => ({ attributes: { user: name }, cost })

function resident() {
  globalThis.gc?.()
  return process.memoryUsage().rss / MIB
}

function flood() {
  const store = memoryStore({ maxCounters: CAPACITY })
  const limiter = createLimiter({ rules, store })
  const before = resident()
  for (let i = 0; i < BLOCKED; i++) limiter.checkSync(call(`blocked-${i}`, 5))
  for (let i = 0; i < CALLERS; i++) {
    limiter.checkSync(call(`flood-${i}`, 1))
    if (i % 1_000_000 === 0) process.stderr.write(`flood ${i / 1e6} of ${CALLERS / 1e6} million\n`)
  }
  let stillBlocked = 0
  for (let i = 0; i < BLOCKED; i++) {
    if (!limiter.checkSync(call(`blocked-${i}`, 1)).allowed) stillBlocked += 1
  }
  const grown = resident() - before
  const configured = (CAPACITY * 48) / MIB
  const { counters, evicted, evictedBlocked, unstored } = store.stats()
  console.log(`${CALLERS} unique callers against ${CAPACITY} counters\n`)
  printTable(
    ['', ''],
    [
      ['counters kept', counters],
      ['the process grew by, MiB', grown.toFixed(0)],
      ['of which configured (48 bytes a counter), MiB', configured.toFixed(0)],
      ['beyond that, MiB', Math.max(0, grown - configured).toFixed(0)],
      ['blocked at the start, still blocked', `${stillBlocked} of ${BLOCKED}`],
      ['evicted / of them blocked / not kept', `${evicted} / ${evictedBlocked} / ${unstored}`],
    ],
  )
}

const GROWN = 5_000_000

/** The ten slowest of a call for each of 5,000,000 callers, ms. */
function slowestOf(limiter) {
  const slowest = []
  for (let i = 0; i < GROWN; i++) {
    const one = call(`user-${i}`, 1)
    const started = process.hrtime()
    limiter.checkSync(one)
    const [seconds, nanoseconds] = process.hrtime(started)
    const ms = seconds * 1000 + nanoseconds / 1e6
    if (slowest.length === 10 && ms <= slowest[9]) continue
    slowest.push(ms)
    slowest.sort((a, b) => b - a)
    slowest.length = Math.min(slowest.length, 10)
  }
  return slowest.map((ms) => ms.toFixed(2))
}

function grow() {
  const limiter = createLimiter({ rules, store: memoryStore({ maxCounters: 6_000_000 }) })
  console.log('The ten slowest of 5,000,000 calls, ms (collections and other processes included)\n')
  const growing = slowestOf(limiter)
  printTable(
    ['', ...growing.map((_, n) => `#${n + 1}`)],
    [
      ['while the store grows to 5,000,000 counters', ...growing],
      ['once more over the same counters: nothing grows', ...slowestOf(limiter)],
    ],
  )
}

flood()
grow()
