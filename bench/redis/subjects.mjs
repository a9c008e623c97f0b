/**
 * What is measured, each over one connection to a Redis of its own: fixed windows of a day, so that
 * all do the same work. `one` and `three` decide a call with one rule and with three; they resolve
 * with what `admits` reads. Each library is loaded only by the process that measures it.
 */
import { shimUpstash } from './upstash.mjs'

const DAY_S = 86_400
/** Never reached: every call is admitted, and so writes. */
export const MAX_UNREACHED = 1_000_000_000
const RULES = [
  ['per-user', 'user'],
  ['per-team', 'team'],
  ['per-device', 'device'],
]

/** The baseline of ratios: ioredis by default, and with all commands of a turn in one write. */
export const PEER = 'rate-limiter-flexible'
export const PEER_AUTO = 'rate-limiter-flexible, auto-pipelining'
export const SLUICE = 'Sluice'
export const PACKED = 'Sluice packed'
export const BUCKET = 'Sluice, token bucket'
export const FLOOR = 'INCR, pipelined (floor)'

export const subjects = {
  [SLUICE]: (options) => openSluice({ ...options, layout: 'plain' }),
  [PACKED]: (options) => openSluice({ ...options, layout: 'packed' }),
  [BUCKET]: (options) => openSluice({ ...options, layout: 'plain', algorithm: 'token-bucket' }),
  [PEER]: (options) => openFlexible({ ...options, autoPipelining: false }),
  [PEER_AUTO]: (options) => openFlexible({ ...options, autoPipelining: true }),
  'rate-limit-redis': openRateLimitRedis,
  '@upstash/ratelimit': openUpstash,
  [FLOOR]: openFloor,
}

async function openSluice({ url, max, layout, deadlineMs, algorithm = 'fixed-window' }) {
  const { createLimiter } = await import('../../packages/limiter/dist/index.js')
  const { redisStore } = await import('../../packages/limiter/dist/redis/index.js')
  const store = redisStore({ url, layout, deadlineMs })
  await store.ready
  const limits = [{ algorithm, max, window: '24h' }]
  const rules = RULES.map(([id, attribute]) => ({ id, by: [attribute], limits }))
  const one = createLimiter({ store, rules: rules.slice(0, 1) })
  const three = createLimiter({ store, rules })
  return {
    one: (user) => one.check({ attributes: { user } }),
    three: (user, team, device) => three.check({ attributes: { user, team, device } }),
    admits: ({ allowed }) => allowed,
    isFromStore: ({ source }) => source === 'store',
  }
}

/** A setting of rate-limiter-flexible: nothing is sent without a connection. */
async function openFlexible({ url, max, autoPipelining }) {
  const { RateLimiterRedis } = await import('rate-limiter-flexible')
  const storeClient = await connect(url, autoPipelining)
  const [first, second, third] = ['one', 'two', 'three'].map(
    (keyPrefix) =>
      new RateLimiterRedis({
        storeClient,
        keyPrefix,
        points: max,
        duration: DAY_S,
        rejectIfRedisNotReady: true,
        inMemoryBlockOnConsumed: max,
      }),
  )
  return {
    one: (user) => first.consume(user),
    three: (user, team, device) =>
      Promise.all([first.consume(user), second.consume(team), third.consume(device)]),
    // It rejects to refuse.
    admits: (result) => result.allowed !== false,
  }
}

async function openRateLimitRedis({ url, max, autoPipelining }) {
  const { RedisStore } = await import('rate-limit-redis')
  const client = await connect(url, autoPipelining)
  const [first, second, third] = await Promise.all(
    ['one:', 'two:', 'three:'].map(async (prefix) => {
      const store = new RedisStore({ prefix, sendCommand: (...words) => client.call(...words) })
      await store.init({ windowMs: DAY_S * 1000 })
      return store
    }),
  )
  return {
    one: (user) => first.increment(user),
    three: (user, team, device) =>
      Promise.all([first.increment(user), second.increment(team), third.increment(device)]),
    admits: all(({ totalHits }) => totalHits <= max),
  }
}

/** Made for Redis over HTTP; here its client is a shim over ioredis, which is far faster. */
async function openUpstash({ url, max, autoPipelining }) {
  const { Ratelimit } = await import('@upstash/ratelimit')
  const redis = shimUpstash(await connect(url, autoPipelining))
  const [first, second, third] = ['one', 'two', 'three'].map(
    (prefix) =>
      new Ratelimit({
        redis,
        prefix,
        limiter: Ratelimit.fixedWindow(max, `${DAY_S} s`),
        // No timer for each call.
        timeout: 0,
      }),
  )
  return {
    one: (user) => first.limit(user),
    three: (user, team, device) =>
      Promise.all([first.limit(user), second.limit(team), third.limit(device)]),
    admits: all(({ success }) => success),
  }
}

async function openFloor({ url, autoPipelining }) {
  const client = await connect(url, autoPipelining)
  return {
    one: (user) => client.incr(user),
    three: (user, team, device) =>
      Promise.all([client.incr(user), client.incr(team), client.incr(device)]),
    admits: () => true,
  }
}

const all = (admits) => (results) =>
  Array.isArray(results) ? results.every(admits) : admits(results)

async function connect(url, enableAutoPipelining) {
  const { Redis } = await import('ioredis')
  const client = new Redis(url, { enableAutoPipelining, lazyConnect: true })
  await client.connect()
  return client
}
