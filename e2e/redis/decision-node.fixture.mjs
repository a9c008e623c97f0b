/**
 * One node that decides a number of calls, of which some wait at any time. Prints the results as
 * one line of JSON. With a list of attributes, calls have them in turn.
 *
 *     node decision-node.fixture.mjs '{ "url": …, "rules": …, "calls": 1000, "waiting": 64 }'
 */
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'

const { url, rules, calls, waiting, attributes, layout, client } = JSON.parse(process.argv[2])
const store = redisStore({ url, layout, client, deadlineMs: 10_000, denyCacheMs: 0 })
const limiter = createLimiter({ rules, store })
await store.ready
await limiter.ready()
// All nodes begin together, when the parent sends a line.
console.log('ready')
await new Promise((resolve) => process.stdin.once('data', resolve))

const turns = [attributes].flat()
const sources = {}
/** Of each admitted call, the limit that decided it and what was in use of that afterwards. */
const units = []
let allowed = 0
let refusedWithRoom = 0
let left = calls

async function decideOnAndOn() {
  while (left > 0) {
    left -= 1
    const decision = await limiter.check({ attributes: turns[left % turns.length] })
    const { limit, remaining } = decision
    if (decision.allowed) allowed += 1
    else if (remaining > 0) refusedWithRoom += 1
    if (decision.allowed && turns.length > 1) units.push([limit, limit - remaining])
    sources[decision.source] = (sources[decision.source] ?? 0) + 1
  }
}

const startedMs = performance.now()
await Promise.all(Array.from({ length: waiting }, decideOnAndOn))
const seconds = (performance.now() - startedMs) / 1000
const perSecond = Math.round(calls / seconds)
console.log(JSON.stringify({ allowed, refusedWithRoom, units, sources, perSecond }))
await limiter.close()
process.exit(0)
