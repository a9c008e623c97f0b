/**
 * One node, controlled by its parent process. Each decision is written to a file in the turn of the
 * event loop in which it was made, so that a killed node loses no admission.
 *
 *     node fleet-node.fixture.mjs '{ "rules": …, "store": { "url": … }, "file": … }'
 */
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'

const PACE_EVERY_MS = 5
const LOOK_EVERY_MS = 10
/** More would keep this process busy for longer than the deadline of the store. */
const AT_ONCE_MAX = 100

const { rules, store: options, file, wallOffsetMs } = JSON.parse(process.argv[2])
const log = openSync(file, 'a')
const { secret, ...others } = options
const store = redisStore({ ...others, ...(secret && { secret: Buffer.from(secret, 'hex') }) })
// A node that starts while the store is gone logs that repeatedly; `seen` says when it is back.
store.ready.catch(() => {})
let aheadMs = wallOffsetMs
const clock = { now: () => (Date.now() + aheadMs) * 1000 }
const limiter = createLimiter({ rules, store, clock })

let rests = 0

const callOf = (rule, user) => ({ attributes: { rule, user } })

async function ask(rule, user) {
  const askedMs = Date.now()
  const decided = limiter.decide(callOf(rule, user))
  // Decisions made synchronously are written synchronously.
  const decision = decided instanceof Promise ? await decided : decided
  const { allowed, source, staleMs = 0 } = decision
  const words = [askedMs, Date.now(), rule, allowed ? 1 : 0, source, staleMs]
  writeSync(log, `${words.join(' ')}\n`)
}

async function until(atMs) {
  await sleep(Math.max(0, atMs - Date.now()))
  while (Date.now() < atMs) await new Promise(setImmediate)
}

const VERBS = {
  /** Makes this many calls at once, at that time by the clock of the machine. */
  async burst({ rule, user, count, atMs = 0 }) {
    await until(atMs)
    await Promise.all(Array.from({ length: count }, () => ask(rule, user)))
  },

  /**
   * Makes this many calls per second for each rule, until the duration is over or the parent sends
   * `rest`. After a pause of this process it makes some of the missed calls in one go.
   */
  async pace({ rules: paced, user, perSecond, ms }) {
    const fromMs = performance.now()
    const asked = []
    const before = rests
    let made = 0
    for (let sinceMs = 0; sinceMs < ms && rests === before; sinceMs = performance.now() - fromMs) {
      const due = Math.ceil((Math.min(sinceMs, ms) * perSecond) / 1000)
      for (made = Math.max(made, due - AT_ONCE_MAX); made < due; made++) {
        for (const rule of paced) asked.push(ask(rule, user))
      }
      await sleep(PACE_EVERY_MS)
    }
    await Promise.all(asked)
  },

  rest() {
    rests += 1
  },

  /** Steps the wall clock, as on a machine that has slept. */
  step({ ms }) {
    aheadMs += ms
  },

  /** Reads the state of the counter from the store. */
  async stored({ rule, user }) {
    await limiter.ready()
    return (await limiter.inspect(rule, callOf(rule, user))).counters[0].state
  },

  stats() {
    const { coordination, ...stats } = limiter.stats
    return { ...stats, rules: Object.fromEntries(coordination), fleet: store.stats().fleet.size }
  },

  /** Waits until the store has answered and this node knows of this many nodes, itself included. */
  async seen({ nodes }) {
    await limiter.ready()
    while (store.stats().fleet.size !== nodes) await sleep(LOOK_EVERY_MS)
  },

  /** Closes the limiter, as a server does on SIGTERM, and sends its final statistics. */
  async stop() {
    await limiter.close()
    return VERBS.stats()
  },
}

const obey = async ({ id, verb, words }) => {
  try {
    process.send({ id, result: await VERBS[verb](words) })
  } catch (error) {
    process.send({ id, problem: String(error?.stack ?? error) })
  }
}

process.on('message', (order) => void obey(order))
process.on('disconnect', () => process.exit(0))
process.send({ id: 0 })
