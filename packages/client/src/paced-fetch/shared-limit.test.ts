import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../tools/property-runs.js'
import { createPacedFetch } from './paced-fetch.js'
import type { PacedFetch } from './paced-fetch-options.js'
import { createRandom, createVirtualClock, type VirtualClock } from './virtual-clock.test-helper.js'

/** What a limit says to one call. */
interface Verdict {
  readonly isAllowed: boolean
  readonly left: number
  /** Until the reset if it is allowed, else until a retry. */
  readonly waitMs: number
}

type Decide = (now: number) => Verdict

function tokenBucket(max: number, windowMs: number): Decide {
  let units = max
  let at = 0
  return (now) => {
    units = Math.min(max, units + ((now - at) * max) / windowMs)
    at = now
    if (units < 1) return { isAllowed: false, left: 0, waitMs: ((1 - units) * windowMs) / max }
    units--
    return { isAllowed: true, left: Math.floor(units), waitMs: ((max - units) * windowMs) / max }
  }
}

function fixedWindow(max: number, windowMs: number): Decide {
  let start = 0
  let count = 0
  return (now) => {
    const window = now - (now % windowMs)
    if (window !== start) count = 0
    start = window
    const isAllowed = count < max
    if (isAllowed) count++
    return { isAllowed, left: max - count, waitMs: start + windowMs - now }
  }
}

function slidingCounter(max: number, windowMs: number): Decide {
  let start = 0
  let count = 0
  let before = 0
  return (now) => {
    const window = now - (now % windowMs)
    if (window !== start) before = window === start + windowMs ? count : 0
    if (window !== start) count = 0
    start = window
    const rest = start + windowMs - now
    const free = Math.floor(max - count - (before * rest) / windowMs)
    if (free < 1) return { isAllowed: false, left: 0, waitMs: rest }
    count++
    return { isAllowed: true, left: free - 1, waitMs: rest + windowMs }
  }
}

interface Server {
  readonly send: () => Promise<Response>
  readonly arrivals: number[]
  allowed: number
  refused: number
}

/** A server that answers as the gateway of Sluice does: times are whole seconds, rounded up. */
function createServer(clock: VirtualClock, decide: Decide, policy: string): Server {
  const random = createRandom(7)
  const delay = () => 1 + 3 * random()
  const server: Server = {
    arrivals: [],
    allowed: 0,
    refused: 0,
    send: () =>
      new Promise((resolve) => {
        clock.after(delay(), () => {
          server.arrivals.push(clock.now())
          const { isAllowed, left, waitMs } = decide(clock.now())
          server[isAllowed ? 'allowed' : 'refused']++
          const seconds = String(Math.max(1, Math.ceil(waitMs / 1000)))
          const headers = new Headers({ 'RateLimit-Policy': policy })
          headers.set('RateLimit', `"a";r=${left};t=${seconds}`)
          if (!isAllowed) headers.set('Retry-After', seconds)
          const response = new Response(null, { status: isAllowed ? 200 : 429, headers })
          clock.after(delay(), () => resolve(response))
        })
      }),
  }
  return server
}

const START = 1_795_000_000_000
const CLIENTS = 10
const SECONDS = 10

/** Calls again and again, three times as often as its part of the limit would allow. */
function keepCalling(clock: VirtualClock, paced: PacedFetch, everyMs: number): void {
  paced('https://api.example.com/').catch(() => {})
  clock.after(everyMs, () => keepCalling(clock, paced, everyMs))
}

describe('ten clients that share a limit and want three times as much', () => {
  test.each([
    { name: 'a token bucket', create: tokenBucket, max: 200, windowS: 1 },
    { name: 'a fixed window', create: fixedWindow, max: 400, windowS: 2 },
    { name: 'a sliding window counter', create: slidingCounter, max: 500, windowS: 1 },
  ])('use at least 95 % of $name, and at most 1 % is refused', async ({ create, max, windowS }) => {
    const clock = createVirtualClock(START)
    const server = createServer(clock, create(max, windowS * 1000), `"a";q=${max};w=${windowS}`)
    for (let i = 0; i < CLIENTS; i++) {
      const paced = createPacedFetch(server.send, { clock, random: createRandom(i), maxQueue: 3 })
      clock.after(i, () => keepCalling(clock, paced, (windowS * 1000 * CLIENTS) / max / 3))
    }
    await clock.runTo(START + SECONDS * 1000)
    expect(server.allowed / ((max * SECONDS) / windowS)).toBeGreaterThan(0.95)
    expect(server.refused / (server.allowed + server.refused)).toBeLessThan(0.01)
  })
})

describe('a client that is alone', () => {
  test('is never refused by a token bucket, with several calls in flight', async () => {
    const limits = fc.record({
      max: fc.integer({ min: 1, max: 100 }),
      windowS: fc.integer({ min: 1, max: 10 }),
      calls: fc.integer({ min: 2, max: 250 }),
      seed: fc.nat(),
    })
    await fc.assert(
      fc.asyncProperty(limits, async ({ max, windowS, calls, seed }) => {
        const clock = createVirtualClock(START)
        const policy = `"a";q=${max};w=${windowS}`
        const server = createServer(clock, tokenBucket(max, windowS * 1000), policy)
        const paced = createPacedFetch(server.send, { clock, random: createRandom(seed) })
        for (let i = 0; i < calls; i++) paced('https://api.example.com/').catch(() => {})
        await clock.runTo(START + 40 * calls * windowS * 1000)
        expect(server).toMatchObject({ allowed: calls, refused: 0 })
      }),
      { numRuns: propertyRuns(50) },
    )
  })
})

describe('a thousand clients that are refused at the edge of a window', () => {
  test('come back spread over the second that follows', async () => {
    const clock = createVirtualClock(START)
    const decide: Decide = (now) => fixedWindow(0, 1000)(now)
    const server = createServer(clock, decide, '"a";q=100;w=1')
    for (let i = 0; i < 1000; i++) {
      const paced = createPacedFetch(server.send, { clock, random: createRandom(i * 7919) })
      paced('https://api.example.com/').catch(() => {})
    }
    await clock.runTo(START + 1000)
    const first = server.arrivals.length
    expect(first).toBe(1000)
    await clock.runTo(START + 2020)
    const bins = Array.from({ length: 20 }, () => 0)
    const later = server.arrivals.slice(first)
    for (const at of later) {
      const bin = Math.min(19, Math.floor((at - START - 1000) / 50))
      bins[bin] = (bins[bin] ?? 0) + 1
    }
    expect(later.length).toBeGreaterThan(0)
    expect(Math.max(...bins) / (later.length / bins.length)).toBeLessThanOrEqual(3)
  })
})
