/**
 * One node of a fleet: a limiter over the Redis that all share. It opens what it was given, then
 * plays the calls that it is given and records what became of each, and when.
 *
 * When: an admission that the store granted counts at the store's time of it, which its receipt
 * has; one that this node made by itself counts at the moment it was made, by the machine's clock,
 * which is also that of Redis.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { readReceipt, sipKey } from '../../packages/core/dist/index.js'
import { createLimiter } from '../../packages/limiter/dist/index.js'
import { redisStore } from '../../packages/limiter/dist/redis/index.js'

const TICK_MS = 2
const LOOK_EVERY_MS = 10
const CLOCK_TICKS = 10
/** Synchronous decisions before other work gets a turn. */
const DECIDED_PER_TURN = 32
const SOURCES = ['store', 'lease', 'local', 'deny-cache', 'posture']

const { url, rules, fleetSize, deadlineMs, clockOffsetMs = 0 } = JSON.parse(process.argv[2])
// The same for all nodes, and known here, so that receipts can be decoded.
const secret = new Uint8Array(16).fill(7)
const key = sipKey(secret)
/**
 * The longest time that Redis took to answer, and this process to read it, since the last query.
 */
let roundTripMs = 0
const observer = {
  batch: (_address, seconds) => {
    roundTripMs = Math.max(roundTripMs, seconds * 1000)
  },
}
const store = redisStore({ url, secret, fleetSize, deadlineMs, observer })
const clock = { now: () => Math.round((Date.now() + clockOffsetMs) * 1000) }
const limiter = createLimiter({ rules, store, clock, secret })
await limiter.ready()

const orders = { fleet, play, hammer, stats, close }
process.on('message', ({ id, kind, ...order }) => {
  Promise.resolve(orders[kind](order)).then(
    (answer) => process.send({ id, answer }),
    (error) => process.send({ id, failed: error?.stack ?? JSON.stringify(error) }),
  )
})
process.on('disconnect', () => process.exit())
process.send({})

/** How many nodes this one knows of. */
function fleet() {
  return store.stats().fleet.size
}

function stats({ rule }) {
  return limiter.stats?.coordination?.get(rule) ?? {}
}

async function close() {
  await limiter.close()
}

/**
 * Microseconds since 1970, finer than `Date.now`: from where its milliseconds begin. Whatever comes
 * between the two readings makes the one clock seem less ahead of the other, never more.
 */
function fineClock() {
  let aheadMs = -Infinity
  for (let tick = 0; tick < CLOCK_TICKS; tick++) {
    const before = Date.now()
    let begun = before
    while (begun === before) begun = Date.now()
    aheadMs = Math.max(aheadMs, begun - performance.now())
  }
  return () => (performance.now() + aheadMs) * 1000
}

/** Calls at the given milliseconds after the start, whether or not those before are answered. */
async function play({ rule, startMs, dues }) {
  const count = dues.length
  const nowUs = fineClock()
  const asked = new Float64Array(count)
  const answered = new Float64Array(count)
  const times = new Float64Array(count)
  const granted = new Float64Array(count)
  const admitted = new Uint8Array(count)
  const sources = new Uint8Array(count)
  const call = { attributes: { cell: rule, user: 'u1' } }
  const note = (i, decision, timeUs) => {
    answered[i] = nowUs()
    times[i] = timeUs ?? answered[i]
    granted[i] = storeTime(decision) ?? times[i]
    admitted[i] = decision.allowed ? 1 : 0
    sources[i] = SOURCES.indexOf(decision.source)
  }
  const waiting = []
  const ask = (i) => {
    asked[i] = nowUs()
    const decision = limiter.decide(call, { receipt: true })
    if (!(decision instanceof Promise)) return note(i, decision)
    waiting.push(decision.then((each) => note(i, each, storeTime(each))))
  }
  const stopWatching = watch(rule, nowUs)
  roundTripMs = 0
  let next = 0
  while (next < count) {
    const sinceMs = nowUs() / 1000 - startMs
    while (next < count && dues[next] <= sinceMs) ask(next++)
    await sleep(TICK_MS)
  }
  await Promise.all(waiting)
  return { asked, answered, times, granted, admitted, sources, roundTripMs, ...stopWatching() }
}

/** When the store granted it. */
function storeTime({ receipt, allowed }) {
  if (!allowed || receipt === undefined) return undefined
  return readReceipt(receipt, key)[0]?.at
}

/**
 * Every few milliseconds: how many units of leases this node holds, how many nodes it knows, and
 * how late its timers are.
 */
function watch(rule, nowUs) {
  const held = []
  let leastFleet = fleet()
  let lateMs = 0
  let lookedMs = performance.now()
  const timer = setInterval(() => {
    const nowMs = performance.now()
    lateMs = Math.max(lateMs, nowMs - lookedMs - LOOK_EVERY_MS)
    lookedMs = nowMs
    held.push([nowUs(), stats({ rule }).held ?? 0])
    leastFleet = Math.min(leastFleet, fleet())
  }, LOOK_EVERY_MS)
  return () => {
    clearInterval(timer)
    return { held, leastFleet, lateMs }
  }
}

/** This many callers, each of which calls again as soon as it is answered. */
async function hammer({ rule, waiting, ms }) {
  const call = { attributes: { cell: rule, user: 'u1' } }
  const cpu = process.cpuUsage()
  const started = performance.now()
  const until = started + ms
  const sum = { decisions: 0, admitted: 0, posture: 0 }
  const one = async () => {
    while (performance.now() < until) {
      for (let i = 0; i < DECIDED_PER_TURN; i++) {
        const made = limiter.decide(call)
        const decision = made instanceof Promise ? await made : made
        sum.decisions += 1
        if (decision.allowed) sum.admitted += 1
        if (decision.source === 'posture') sum.posture += 1
      }
      // As often as a server would: replies are read, timers run.
      await nextTurn()
    }
  }
  await Promise.all(Array.from({ length: waiting }, one))
  const seconds = (performance.now() - started) / 1000
  const { user, system } = process.cpuUsage(cpu)
  return { ...sum, seconds, cpuUs: user + system, stats: stats({ rule }) }
}
