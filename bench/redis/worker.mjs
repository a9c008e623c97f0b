/**
 * One client process of Redis: opens one subject, then runs and measures what the parent requests.
 */
import { createServer } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { CALLERS, makeDraws, makeNames } from './callers.mjs'
import { subjects } from './subjects.mjs'

const LATENCIES_MAX = 2 ** 21
const SENT_PER_TURN_MAX = 1024
const REFUSED_PER_TURN = 256
const REFUSED_WAITING = 16
const WARM_UP_WAITING = 256
const WARM_UP_MS = 300
/** Read by `admits` of every subject as what it refuses. */
const REFUSAL = { allowed: false, success: false, totalHits: Infinity }

const { subject, seed, ...options } = JSON.parse(process.argv[2])
const { one, three, admits, isFromStore = () => true } = await subjects[subject](options)
const { users, teams, devices } = makeNames()
const decideOne = (i) => one(users[i])
const decideThree = (i) => three(users[i], teams[i], devices[i])
const draws = { uniform: makeDraws('uniform', seed), zipf: makeDraws('zipf', seed) }
const latencies = new Float64Array(LATENCIES_MAX)
const orders = { fill, warm, closed, paced, exhaust, refused, serve, used }
/** CPU time of this process at the last call of `used`. */
let usedBefore = process.cpuUsage()

process.on('message', ({ kind, ...order }) => {
  orders[kind](order).then(
    (answer) => process.send(answer),
    (error) => process.send({ failed: error?.stack ?? JSON.stringify(error) }),
  )
})
process.on('disconnect', () => process.exit())
process.send({})

/** Every caller once, with all rules: no counter is new afterwards. */
async function fill() {
  let next = 0
  await together(WARM_UP_WAITING, async () => {
    while (next < CALLERS) requireAdmitted(await decideThree(next++))
  })
  return {}
}

/** Warms up, so that all code is compiled before the measurement. */
async function warm() {
  for (const rules of [1, 3, 1, 3]) {
    await closed({ waiting: WARM_UP_WAITING, rules, spread: 'uniform', ms: WARM_UP_MS })
  }
  return {}
}

/** This many callers, each of which calls again as soon as it is answered. */
async function closed({ waiting, rules, spread, ms }) {
  const decide = rules === 1 ? decideOne : decideThree
  const draw = draws[spread]
  const cpu = process.cpuUsage()
  const started = performance.now()
  const until = started + ms
  let decisions = 0
  await together(waiting, async () => {
    let asked = performance.now()
    while (asked < until) {
      requireAdmitted(await decide(draw()))
      const answered = performance.now()
      latencies[decisions % LATENCIES_MAX] = answered - asked
      decisions += 1
      asked = answered
    }
  })
  const seconds = (performance.now() - started) / 1000
  return { decisions, seconds, cpuUs: usedSince(cpu), ...percentiles(decisions) }
}

/**
 * Calls that come evenly, whether or not those before them are answered. What a call waits counts
 * from when it was due.
 */
async function paced({ rate, rules, ms }) {
  const decide = rules === 1 ? decideOne : decideThree
  const total = Math.floor((rate * ms) / 1000)
  const gapMs = 1000 / rate
  const pending = { sent: 0, answered: 0, fromStore: 0, failed: undefined }
  const startedMs = performance.now()
  const ask = (dueMs) => {
    decide(draws.uniform()).then(
      (result) => {
        latencies[pending.answered % LATENCIES_MAX] = performance.now() - dueMs
        if (isFromStore(result)) pending.fromStore += 1
        pending.answered += 1
      },
      (error) => {
        pending.failed ??= error
        pending.answered += 1
      },
    )
  }
  while (pending.answered < total) {
    const nowMs = performance.now()
    for (let i = 0; i < SENT_PER_TURN_MAX && pending.sent < total; i++) {
      const dueMs = startedMs + pending.sent * gapMs
      if (dueMs > nowMs) break
      pending.sent += 1
      ask(dueMs)
    }
    await nextTurn()
  }
  if (pending.failed !== undefined) throw pending.failed
  return { decisions: total, fromStore: pending.fromStore, ...percentiles(total) }
}

/**
 * Decides calls that come over a socket: each is a number of four bytes, and that number is its
 * answer. `rules` as everywhere.
 */
async function serve({ path, rules }) {
  const decide = rules === 1 ? decideOne : decideThree
  const server = createServer((socket) => {
    let rest = Buffer.alloc(0)
    const answer = (call) => {
      const bytes = Buffer.allocUnsafe(4)
      bytes.writeUInt32LE(call)
      // All answers of one turn are one write, as in a well-made server.
      if (socket.writableCorked === 0) {
        socket.cork()
        process.nextTick(() => socket.uncork())
      }
      socket.write(bytes)
    }
    socket.on('data', (data) => {
      const bytes = rest.length === 0 ? data : Buffer.concat([rest, data])
      const whole = bytes.length - (bytes.length % 4)
      for (let at = 0; at < whole; at += 4) {
        const call = bytes.readUInt32LE(at)
        decide(draws.uniform()).then(
          (result) => {
            if (admits(result) && isFromStore(result)) answer(call)
            else socket.destroy()
          },
          () => socket.destroy(),
        )
      }
      rest = bytes.subarray(whole)
    })
    socket.on('error', () => {})
  })
  await new Promise((resolve, reject) => server.once('error', reject).listen(path, resolve))
  return {}
}

/** CPU time of this process since the last call. */
async function used() {
  const cpuUs = usedSince(usedBefore)
  usedBefore = process.cpuUsage()
  return { cpuUs }
}

/** Spends the whole limit of the first callers. */
async function exhaust({ callers }) {
  let next = 0
  await together(REFUSED_WAITING, async () => {
    while (next < callers) {
      const caller = next++
      while (admits(await decideOne(caller).catch(asRefusal)));
    }
  })
  return {}
}

/** The first callers, all over their limit, call again as soon as they are refused. */
async function refused({ callers, ms }) {
  const cpu = process.cpuUsage()
  const started = performance.now()
  let decisions = 0
  await together(REFUSED_WAITING, async () => {
    while (performance.now() - started < ms) {
      for (let i = 0; i < REFUSED_PER_TURN; i++) {
        try {
          if (admits(await decideOne(decisions++ % callers))) throw new Error('one was admitted')
        } catch (refusal) {
          asRefusal(refusal)
        }
      }
      // As often as a server would: replies are read, timers run.
      await nextTurn()
    }
  })
  const seconds = (performance.now() - started) / 1000
  return { decisions, seconds, cpuUs: usedSince(cpu) }
}

/** Where a subject rejects to refuse, it rejects with something that is no error. */
function asRefusal(reason) {
  if (reason instanceof Error) throw reason
  return REFUSAL
}

function together(count, run) {
  return Promise.all(Array.from({ length: count }, run))
}

function requireAdmitted(result) {
  if (!admits(result)) throw new Error('a call was refused')
}

function usedSince(before) {
  const { user, system } = process.cpuUsage(before)
  return user + system
}

function percentiles(count) {
  const sorted = latencies.subarray(0, Math.min(count, LATENCIES_MAX)).sort()
  const at = (share) => sorted[Math.floor((sorted.length - 1) * share)]
  return { p50: at(0.5), p99: at(0.99) }
}
