/** One node of a region: opens its limiters, then runs what it is ordered. */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { openers } from './subjects.mjs'

const TICK_MS = 1
const LOOK_EVERY_MS = 2
const MEET_MS_MAX = 20_000
/** More calls are not sent: a limiter that is slower than its callers has no end. */
const IN_FLIGHT_MAX = 500
/** Longer than a node needs; a link that is silent has not confirmed everything by then. */
const TOLD_MS_MAX = 60_000
const SEEN_MS_MAX = 10_000

/** `settings`: one limiter for each name. */
const { subject, settings } = JSON.parse(process.argv[2])
const limiters = {}
for (const [name, setting] of Object.entries(settings)) {
  limiters[name] = await openers[subject](setting)
}
const orders = { meet, play, spread, hammer, seen, remaining, told, units, lags, fresh }
process.on('message', ({ id, kind, ...order }) => {
  Promise.resolve(orders[kind](order)).then(
    (answer) => process.send({ id, answer }),
    (error) => process.send({ id, failed: error?.stack ?? JSON.stringify(error) }),
  )
})
process.on('disconnect', () => process.exit())
process.send({})

/** Waits until the other regions answer. */
async function meet({ setting = 'on' }) {
  const until = Date.now() + MEET_MS_MAX
  const isMissing = ({ isAnswering = true }) => !isAnswering
  while (limiters[setting].links().some(isMissing)) {
    if (Date.now() > until) throw new Error('the other regions do not answer')
    await sleep(LOOK_EVERY_MS)
  }
  return {}
}

/**
 * Calls at a constant rate from a moment on, whether or not those before are answered, of one
 * caller or of several in turn.
 */
async function play({ setting = 'on', cell, users, perSecond, seconds, startMs }) {
  const limiter = limiters[setting]
  const asked = []
  const admitted = []
  const latencies = []
  const admittedBy = new Int32Array(users.length)
  let waiting = 0
  let unsent = 0
  let posture = 0
  const one = async (i) => {
    waiting += 1
    const begunMs = performance.now()
    asked.push(Date.now() * 1000)
    try {
      const { allowed, at, isPosture } = await limiter.decide(cell, users[i % users.length])
      latencies.push(performance.now() - begunMs)
      if (isPosture) posture += 1
      if (!allowed) return
      admitted.push(at)
      admittedBy[i % users.length] += 1
    } finally {
      waiting -= 1
    }
  }
  const watch = watchLag(limiter)
  limiter.roundTripMs()
  const count = perSecond * seconds
  const calls = []
  for (let next = 0; next < count; ) {
    const sinceMs = Date.now() - startMs
    for (; next < count && (next * 1000) / perSecond <= sinceMs; next++) {
      if (waiting < IN_FLIGHT_MAX) calls.push(one(next))
      else unsent += 1
    }
    await sleep(TICK_MS)
  }
  await Promise.all(calls)
  const roundTripMs = limiter.roundTripMs()
  const numbers = { unsent, posture, lagMs: watch.stop(), roundTripMs }
  return { asked, admitted, latencies: Float64Array.from(latencies), admittedBy, ...numbers }
}

/** The longest time that a unit was not known everywhere. */
function watchLag(limiter) {
  let longestMs = 0
  const timer = setInterval(() => {
    for (const { lagMs } of limiter.links()) longestMs = Math.max(longestMs, lagMs)
  }, LOOK_EVERY_MS)
  return {
    stop() {
      clearInterval(timer)
      return longestMs
    },
  }
}

/** Latency at a constant rate of calls of a hundred callers. */
async function spread({ setting, cell, perSecond, seconds }) {
  const users = Array.from({ length: 100 }, (_, i) => `caller-${setting}-${i}`)
  const startMs = Date.now() + 10
  const { latencies } = await play({ setting, cell, users, perSecond, seconds, startMs })
  return { latencies }
}

/** So many calls, each of a new caller, as fast as it can; then until the others know all. */
async function hammer({ setting, cell, calls, waiting, name }) {
  const limiter = limiters[setting]
  const cpu = process.cpuUsage()
  let next = 0
  const one = async () => {
    while (next < calls) {
      const { allowed } = await limiter.decide(cell, `${name}-${next++}`)
      if (!allowed) throw new Error('a call was refused')
    }
  }
  await Promise.all(Array.from({ length: waiting }, one))
  await told({ setting })
  const { user, system } = process.cpuUsage(cpu)
  return { cpuUs: user + system }
}

/** Calls of one caller, one after the other. */
async function fresh({ setting, cell, user, calls }) {
  const startedMs = performance.now()
  for (let i = 0; i < calls; i++) await limiters[setting].decide(cell, user)
  const ms = performance.now() - startedMs
  await told({ setting })
  return { ms }
}

/** How long after a call was admitted the store of another region has its unit, each time. */
async function seen({ setting, other, cell, name, samples }) {
  const here = limiters[setting]
  const there = limiters[other]
  const waits = []
  for (let i = 0; i < samples; i++) {
    const user = `${name}-${i}`
    const full = await there.remaining(cell, user)
    // At any moment of a round.
    await sleep(Math.random() * 50)
    const { allowed } = await here.decide(cell, user)
    if (!allowed) throw new Error('a call was refused')
    const sinceMs = performance.now()
    while ((await there.remaining(cell, user)) === full) {
      if (performance.now() - sinceMs > SEEN_MS_MAX) throw new Error('a unit was never seen')
      await nextTurn()
    }
    waits.push(performance.now() - sinceMs)
  }
  return { waits }
}

async function remaining({ setting = 'on', cell, users }) {
  return Promise.all(users.map((user) => limiters[setting].remaining(cell, user)))
}

/** Waits until the others know everything. */
async function told({ setting = 'on' }) {
  const until = performance.now() + TOLD_MS_MAX
  const isOpen = ({ lagMs, pending }) => lagMs > 0 || pending > 0
  while (limiters[setting].links().some(isOpen)) {
    if (performance.now() > until) throw new Error('the others do not know everything')
    await sleep(LOOK_EVERY_MS)
  }
  return {}
}

/** What became of the units that were sent to each region. */
function units({ setting = 'on' }) {
  return limiters[setting].links().map(({ region, fates }) => ({ region, ...fates }))
}

/** The age of the oldest unit that each region has not confirmed. */
function lags({ setting = 'on' }) {
  return limiters[setting].links().map(({ region, lagMs }) => ({ region, lagMs }))
}
