/**
 * One node that decides a number of calls, of which some wait at any time. Prints the results as
 * one line of JSON.
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

const sources = {}
let allowed = 0
let left = calls

async function decideOnAndOn() {
  while (left > 0) {
    left -= 1
    const decision = await limiter.check({ attributes })
    if (decision.allowed) allowed += 1
    sources[decision.source] = (sources[decision.source] ?? 0) + 1
  }
}

const startedMs = performance.now()
await Promise.all(Array.from({ length: waiting }, decideOnAndOn))
const seconds = (performance.now() - startedMs) / 1000
console.log(JSON.stringify({ allowed, sources, perSecond: Math.round(calls / seconds) }))
await limiter.close()
process.exit(0)
