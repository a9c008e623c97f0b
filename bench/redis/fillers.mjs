/**
 * How Redis comes by so many counters. Sluice decides every one of them itself. Peers do so for the
 * smaller number; for the larger one a script does what theirs does, because they would take too
 * long.
 */
import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import { randomFrom } from './callers.mjs'
import { shimUpstash } from './upstash.mjs'

const MAX = 1000
const DAY_S = 86_400
/** So much is taken at once that no counter expires before the last is created. */
const COST = { least: 100, most: 999 }
const WAITING = 2048
const KEYS_PER_SCRIPT = 1000
const SCRIPTS_IN_FLIGHT = 8
const DEADLINE_MS = 10_000
const SEED = 7

export const fillers = {
  'Sluice plain': { fill: (server, counters) => fillSluice(server, counters, 'plain') },
  'Sluice packed': { fill: (server, counters) => fillSluice(server, counters, 'packed') },
  'rate-limiter-flexible': {
    fill: fillFlexible,
    fillFast: (server, counters) =>
      fillByScript(
        server,
        counters,
        `local key = 'rlflx:user-' .. i
         redis.call('set', key, 0, 'EX', ${DAY_S}, 'NX')
         redis.call('incrby', key, cost)`,
      ),
  },
  'rate-limit-redis': {
    fill: fillRateLimitRedis,
    fillFast: (server, counters) =>
      fillByScript(server, counters, `redis.call('SET', 'rl:user-' .. i, 1, 'PX', ${DAY_S}000)`),
  },
  '@upstash/ratelimit, token bucket': {
    fill: fillUpstash,
    fillFast: (server, counters) =>
      fillByScript(
        server,
        counters,
        `local key = '@upstash/ratelimit:user-' .. i
         redis.call('HSET', key, 'refilledAt', now, 'tokens', ${MAX} - cost)
         redis.call('PEXPIRE', key, ${DAY_S}000)`,
      ),
  },
}

const random = randomFrom(SEED)
const drawCost = () => COST.least + Math.floor(random() * (COST.most - COST.least + 1))

async function fillSluice({ url }, counters, layout) {
  const { createLimiter } = await import('../../packages/limiter/dist/index.js')
  const { redisStore } = await import('../../packages/limiter/dist/redis/index.js')
  const store = redisStore({ url, layout, deadlineMs: DEADLINE_MS })
  await store.ready
  const limits = [{ algorithm: 'token-bucket', max: MAX, window: '24h' }]
  const limiter = createLimiter({ store, rules: [{ id: 'per-user', by: ['user'], limits }] })
  await forAll(counters, async (i) => {
    const call = { attributes: { user: `user-${i}` }, cost: drawCost() }
    const { allowed, source } = await limiter.check(call)
    if (!allowed || source !== 'store') throw new Error(`user-${i}: ${allowed}, by ${source}`)
  })
  await limiter.close()
}

async function fillFlexible({ url }, counters) {
  const { RateLimiterRedis } = await import('rate-limiter-flexible')
  const storeClient = new Redis(url, { enableAutoPipelining: true })
  const limiter = new RateLimiterRedis({ storeClient, points: MAX, duration: DAY_S })
  await forAll(counters, (i) => limiter.consume(`user-${i}`, drawCost()))
  await storeClient.quit()
}

async function fillRateLimitRedis({ url }, counters) {
  const { RedisStore } = await import('rate-limit-redis')
  const client = new Redis(url, { enableAutoPipelining: true })
  const store = new RedisStore({ sendCommand: (...words) => client.call(...words) })
  await store.init({ windowMs: DAY_S * 1000 })
  await forAll(counters, (i) => store.increment(`user-${i}`))
  await client.quit()
}

async function fillUpstash({ url }, counters) {
  const { Ratelimit } = await import('@upstash/ratelimit')
  const client = new Redis(url, { enableAutoPipelining: true })
  // Refilled once a day, so that its TTL is as long as that of the others.
  const limiter = Ratelimit.tokenBucket(MAX, `${DAY_S} s`, MAX)
  const settings = { redis: shimUpstash(client), limiter, timeout: 0, ephemeralCache: false }
  const limits = new Ratelimit(settings)
  await forAll(counters, (i) => limits.limit(`user-${i}`, { rate: drawCost() }))
  await client.quit()
}

async function forAll(counters, decide) {
  let next = 0
  const run = async () => {
    while (next < counters) await decide(next++)
  }
  await Promise.all(Array.from({ length: WAITING }, run))
}

/** `body` is what the script of a peer writes: `i` is the caller, `cost` what it takes. */
async function fillByScript({ url }, counters, body) {
  const client = new Redis(url)
  const source = `math.randomseed(tonumber(ARGV[3]))
    local now = ARGV[3]
    for i = tonumber(ARGV[1]), tonumber(ARGV[2]) - 1 do
      local cost = math.random(${COST.least}, ${COST.most})
      ${body}
    end`
  await client.script('LOAD', source)
  const sha = createHash('sha1').update(source).digest('hex')
  let next = 0
  const run = async () => {
    while (next < counters) {
      const from = next
      next = Math.min(counters, from + KEYS_PER_SCRIPT)
      await client.evalsha(sha, 0, from, next, Date.now())
    }
  }
  await Promise.all(Array.from({ length: SCRIPTS_IN_FLIGHT }, run))
  await client.quit()
}
