/**
 * One node, told by its parent what to do. Each decision becomes a line of a file in the turn in
 * which it was made: nothing that a node admitted is lost with a node that is killed.
 *
 *     node node.fixture.mjs '{ "rules": …, "store": { "url": … }, "file": …, "wallOffsetMs": 0 }'
 */
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'

const PACE_EVERY_MS = 5
const LOOK_EVERY_MS = 10
/** More would keep this process busy for longer than the store may take to answer. */
const AT_ONCE_MAX = 100

const { rules, store: options, file, wallOffsetMs } = JSON.parse(process.argv[2])
const log = openSync(file, 'a')
const { secret, ...others } = options
const store = redisStore({ ...others, ...(secret && { secret: Buffer.from(secret, 'hex') }) })
// A node that starts while the store is gone is told so again and again; `seen` says when not.
store.ready.catch(() => {})
let aheadMs = wallOffsetMs
const clock = { now: () => (Date.now() + aheadMs) * 1000 }
const limiter = createLimiter({ rules, store, clock })

let rests = 0

const callOf = (rule, user) => ({ attributes: { rule, user } })

async function ask(rule, user) {
  const askedMs = Date.now()
  const decided = limiter.decide(callOf(rule, user))
  // What is decided at once is written at once.
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
  /** So many calls at once, at that time by the clock of the machine. */
  async burst({ rule, user, count, atMs = 0 }) {
    await until(atMs)
    await Promise.all(Array.from({ length: count }, () => ask(rule, user)))
  },

  /**
   * So many calls a second for each rule, until its time is over or `rest` is said. Of those that a
   * stop of this process kept from being made some are made in one go right after it.
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

  /** The wall clock steps, as on a machine that has slept. */
  step({ ms }) {
    aheadMs += ms
  },

  /** The state of the counter as the store has it. */
  async stored({ rule, user }) {
    await limiter.ready()
    return (await limiter.inspect(rule, callOf(rule, user))).counters[0].state
  },

  stats() {
    const { coordination, ...stats } = limiter.stats
    return { ...stats, rules: Object.fromEntries(coordination), fleet: store.stats().fleet.size }
  },

  /** Until the store has answered and this node has seen so many, itself among them. */
  async seen({ nodes }) {
    await limiter.ready()
    while (store.stats().fleet.size !== nodes) await sleep(LOOK_EVERY_MS)
  },

  /** As a server does on SIGTERM, and tells what became of everything. */
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
