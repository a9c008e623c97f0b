/**
 * One node that makes reservations and ends them in every way. Before and after each step it writes
 * a line to its standard output, at once, so that what it did is known even if it is killed:
 *
 *     made <user> <units>      before a reserve          reserved <user> <0|1|?>   after it
 *     more <user> <units>      before an extension       extended <user> <0|1|?>   after it
 *     end <user> <units>       before settle or cancel   ended <user> <0|1|?>      after it
 *
 * `?` is a step that the store did not answer, so that it may have happened.
 *
 *     node reservation-node.fixture.mjs '{ "url": …, "rules": …, "node": 0, "sequences": 1000 }'
 */
import { writeSync } from 'node:fs'
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'

const { url, rules, node, sequences, waiting, deadlineMs } = JSON.parse(process.argv[2])
const store = redisStore({ url, deadlineMs, denyCacheMs: 0 })
const limiter = createLimiter({ rules, store })
await store.ready
await limiter.ready()

let seed = 1 + node
/** The same numbers in every run: what differs is how the steps of all nodes interleave. */
function random(below) {
  seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff
  return Math.floor((seed / 0x80000000) * below)
}

function write(...words) {
  writeSync(1, `${words.join(' ')}\n`)
}

write('ready')
await new Promise((resolve) => process.stdin.once('data', resolve))

/** Repeats a step that may be repeated until the store answers it. */
async function persist(step) {
  for (let attempt = 0; attempt < 20; attempt++) {
    try {
      return await step()
    } catch (error) {
      if (error.code !== 'STORE_FAILED') throw error
    }
  }
  return undefined
}

async function run(user) {
  const units = 1 + random(100)
  const options = random(3) === 0 ? { idempotencyKey: user } : {}
  const call = { attributes: { user, tokens: units } }
  write('made', user, units)
  let reservation = await limiter.reserve(call, options)
  const isCertain = reservation.source === 'store'
  write('reserved', user, isCertain ? Number(reservation.allowed) : '?')
  if (!isCertain || !reservation.allowed) return
  // A reserve that is sent again under its key changes nothing.
  if (options.idempotencyKey !== undefined) await limiter.reserve(call, options)
  if (random(3) === 0) reservation = (await extend(user, reservation)) ?? reservation
  // Nobody ends this one.
  if (random(5) === 0) return
  const isCancelled = random(4) === 0
  const actual = isCancelled ? 0 : random(150)
  const end = () => (isCancelled ? reservation.cancel() : reservation.settle(actual))
  write('end', user, actual)
  // Two at once: one of them ends it.
  const ended = await Promise.all(random(4) === 0 ? [persist(end), persist(end)] : [persist(end)])
  const settled = ended.filter((settlement) => settlement?.settled === true)
  if (settled.length > 1) throw new Error(`settled ${settled.length} times: ${user}`)
  // An earlier attempt, whose answer was lost, may have ended it.
  write('ended', user, ended.every((settlement) => settlement === undefined) ? '?' : 1)
}

async function extend(user, reservation) {
  const more = 1 + random(50)
  write('more', user, more)
  try {
    const extended = await reservation.extend({ tokens: more })
    const isCertain = extended.source === 'store'
    write('extended', user, isCertain ? Number(extended.allowed) : '?')
    return isCertain && extended.allowed ? extended : undefined
  } catch {
    write('extended', user, '?')
    return undefined
  }
}

let next = 0
async function runOnAndOn() {
  while (next < sequences) await run(`${node}-${next++}`)
}

await Promise.all(Array.from({ length: waiting }, runOnAndOn))
write('done')
await limiter.close()
process.exit(0)
