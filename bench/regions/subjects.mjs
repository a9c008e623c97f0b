/**
 * Opens a limiter of one region. `decide(cell, user)` resolves with whether the call was admitted
 * and when, in microseconds: an admission of Sluice counts at the time of the store that granted
 * it, one of the peer when it was asked for, because that chooses the window of its counter.
 */
import { readReceipt, sipKey } from '../../packages/core/dist/index.js'
import { createLimiter, regionalStore } from '../../packages/limiter/dist/index.js'
import { redisStore } from '../../packages/limiter/dist/redis/index.js'
import { shimUpstash } from '../redis/upstash.mjs'

export const SLUICE = 'Sluice'
export const PEER = '@upstash/ratelimit'
/** The same for all nodes, and known here, so that receipts can be decoded. */
const secret = new Uint8Array(16).fill(7)
const key = sipKey(secret)
/** Long enough that no posture decides on a busy machine. */
const DEADLINE_MS = 1000
const LINK_DEADLINE_MS = 2000

export const openers = { [SLUICE]: openSluice, [PEER]: openPeer }

/** One rule for each cell, found by an attribute, so that its sums are its own. */
export function ruleOf({ id, algorithm, max, windowMs, burst }) {
  const limit = { algorithm, max, window: `${windowMs}ms`, ...(burst && { burst }) }
  return { id, match: { where: { cell: [id] } }, by: ['user'], limits: [limit], regions: 'merged' }
}

/** `links`: the URLs of the other regions by name; without any it is not one of several. */
async function openSluice({ region, url, links, cells }) {
  let roundTripMs = 0
  const observer = {
    batch: (_address, seconds) => {
      roundTripMs = Math.max(roundTripMs, seconds * 1000)
    },
  }
  const own = redisStore({ url, secret, deadlineMs: DEADLINE_MS, observer })
  const others = Object.entries(links).map(([name, link]) => {
    const store = redisStore({ url: link, secret, guest: true, deadlineMs: LINK_DEADLINE_MS })
    // It is tried again for as long as it fails.
    store.ready.catch(() => {})
    return [name, store]
  })
  const isRegional = others.length > 0
  const regional = isRegional
    ? regionalStore({ region, store: own, others: Object.fromEntries(others) })
    : undefined
  const limiter = createLimiter({ rules: cells.map(ruleOf), store: regional ?? own, secret })
  await own.ready
  return {
    decide: async (cell, user) => {
      const decision = await limiter.check({ attributes: { cell, user } }, { receipt: true })
      const { allowed, source, receipt } = decision
      const at = allowed && receipt !== undefined ? readReceipt(receipt, key)[0]?.at : undefined
      return { allowed, at: at ?? Date.now() * 1000, isPosture: source === 'posture' }
    },
    remaining: async (cell, user) => {
      const { remaining } = await limiter.peek({ attributes: { cell, user } })
      return remaining
    },
    links: () => regional?.regionStats() ?? [],
    roundTripMs: () => {
      const longest = roundTripMs
      roundTripMs = 0
      return longest
    },
    close: () => limiter.close(),
  }
}

/** With a cache of callers that were refused, so that these cost its Redis nothing. */
async function openPeer({ url, links, cells }) {
  const { MultiRegionRatelimit } = await import('@upstash/ratelimit')
  const { Redis } = await import('ioredis')
  const clients = [url, ...Object.values(links)].map((each) => {
    const client = new Redis(each, { enableAutoPipelining: true })
    client.on('error', () => {})
    return client
  })
  const redis = clients.map(shimUpstash)
  const limiters = new Map(
    cells.map(({ id, max, windowMs }) => [
      id,
      new MultiRegionRatelimit({
        redis,
        prefix: id,
        limiter: MultiRegionRatelimit.fixedWindow(max, `${windowMs} ms`),
        ephemeralCache: new Map(),
        // No timer for each call; by default a call passes after 5 s without an answer.
        timeout: 0,
      }),
    ]),
  )
  let unsettled = 0
  return {
    decide: async (cell, user) => {
      const at = Date.now() * 1000
      const { success, pending } = await limiters.get(cell).limit(user)
      unsettled += 1
      const settled = () => {
        unsettled -= 1
      }
      pending.then(settled, settled)
      return { allowed: success, at, isPosture: false }
    },
    remaining: async (cell, user) => (await limiters.get(cell).getRemaining(user)).remaining,
    links: () => [{ pending: unsettled, lagMs: unsettled }],
    roundTripMs: () => 0,
    close: async () => {
      for (const client of clients) client.disconnect()
    },
  }
}
