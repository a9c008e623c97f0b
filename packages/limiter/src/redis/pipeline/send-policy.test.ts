import { describe, expect, test } from 'vitest'
import { BATCH_COST_MAX, SendPolicy, type SentBatch } from './send-policy.js'

/** The round trip in most of these tests. */
const WAY_MS = 2

/** A policy that knows the round trip and has nothing in flight. */
function opened(wayMs = WAY_MS): SendPolicy {
  const policy = new SendPolicy()
  policy.learnRoundTrip(wayMs, 0)
  return policy
}

/** Answers a sent batch after this time. */
function answer(policy: SendPolicy, batch: SentBatch, afterMs: number, storeUs?: number): void {
  policy.onAnswered(batch, batch.sentMs + afterMs, storeUs)
  policy.onCompleted(batch)
}

/** Sends this many batches of one take in turn, each answered after this time. */
function exchange(policy: SendPolicy, count: number, roundTripMs: number, fromMs = 0): void {
  for (let i = 0; i < count; i++) {
    answer(policy, policy.onSent(1, 1, fromMs + i * roundTripMs), roundTripMs)
  }
}

/** Sends waiting takes while the policy allows it; returns the number of batches. */
function sendAll(policy: SendPolicy, queuedCost: number, nowMs: number): number {
  let batches = 0
  for (let left = queuedCost; policy.maySend(left, nowMs); batches++) {
    const cost = Math.min(left, BATCH_COST_MAX)
    policy.onSent(cost, 1, nowMs)
    left -= cost
  }
  return batches
}

describe('for a distant Redis with spare time', () => {
  test('every decision is sent at once, up to 64 batches in flight', () => {
    const policy = opened()
    for (let i = 0; i < 64; i++) {
      expect(policy.maySend(1, i * 0.03)).toBe(true)
      policy.onSent(1, 1, i * 0.03)
    }
    expect(policy.maySend(1, 2)).toBe(false)
  })

  test('a batch is sent only if something waits', () => {
    expect(opened().maySend(0, 0)).toBe(false)
  })

  test('no timer is set, because nothing waits for other decisions', () => {
    const policy = opened()
    policy.onSent(1, 1, 0)
    expect(policy.retryInMs(1)).toBeUndefined()
  })
})

describe('while the batches of this process keep Redis busy', () => {
  test('takes wait for a reply once Redis has work for longer than the round trip', () => {
    const policy = opened(0.1)
    policy.onSent(64, 1, 0)
    // Nothing is queued yet behind the batch that Redis runs.
    expect(policy.maySend(64, 0)).toBe(true)
    policy.onSent(64, 1, 0)
    // 64 takes at 4 us are more than 0.1 ms.
    expect(policy.maySend(64, 0)).toBe(false)
  })

  test('the first reply lets more takes leave', () => {
    const policy = opened(0.1)
    const first = policy.onSent(64, 1, 0)
    policy.onSent(64, 1, 0)
    answer(policy, first, 0.4)
    expect(policy.maySend(64, 0.4)).toBe(true)
  })

  test('full batches are sent until 512 takes are in flight', () => {
    const policy = opened(0.1)
    expect(sendAll(policy, 4096, 0)).toBe(4)
    expect(policy.inFlight).toBe(4)
  })

  test('no more than that is sent before the round trip is known', () => {
    const policy = new SendPolicy()
    expect(sendAll(policy, 4096, 0)).toBe(4)
  })

  test('every script of a batch on a Cluster counts', () => {
    const policy = opened(0.1)
    policy.onSent(8, 8, 0)
    expect(policy.maySend(1, 0)).toBe(true)
    policy.onSent(8, 8, 0)
    expect(policy.maySend(1, 0)).toBe(false)
  })
})

describe('for a few callers and a nearby Redis', () => {
  test('takes are sent one by one while fewer than four are in flight', () => {
    const policy = opened(0.1)
    for (let i = 0; i < 4; i++) {
      expect(policy.sendsAtOnce(1, 0)).toBe(true)
      policy.onSent(1, 1, 0)
    }
    expect(policy.sendsAtOnce(1, 0)).toBe(false)
  })

  test('takes are sent in eights while at most 16 are in flight', () => {
    const policy = opened(0.1)
    policy.onSent(8, 1, 0)
    expect([policy.sendsAtOnce(7, 0), policy.sendsAtOnce(8, 0)]).toEqual([false, true])
    policy.onSent(9, 1, 0)
    expect(policy.sendsAtOnce(8, 0)).toBe(false)
  })
})

describe('while other clients keep Redis busy', () => {
  /** Eight replies that took far longer than the round trip. */
  function behind(): SendPolicy {
    const policy = opened()
    exchange(policy, 8, 20)
    return policy
  }

  test('eight replies slower than twice the round trip plus a millisecond show it', () => {
    const policy = opened()
    exchange(policy, 7, 20)
    expect(policy.isBehind).toBe(false)
    exchange(policy, 1, 20)
    expect(policy.isBehind).toBe(true)
  })

  test('replies that are late because of work of this process do not show it', () => {
    const policy = opened()
    for (let i = 0; i < 8; i++) {
      const before = Array.from({ length: 8 }, () => policy.onSent(BATCH_COST_MAX, 1, i * 10))
      const batch = policy.onSent(1, 1, i * 10)
      for (const other of before) policy.onCompleted(other)
      answer(policy, batch, 6)
    }
    expect(policy.isBehind).toBe(false)
  })

  test('batches are sent one after the other, and more only if they are large', () => {
    const policy = behind()
    expect(policy.maySend(1, 200)).toBe(true)
    policy.onSent(1, 1, 200)
    expect([policy.maySend(63, 200), policy.maySend(64, 200)]).toEqual([false, true])
    policy.onSent(64, 1, 200)
    expect([policy.maySend(127, 200), policy.maySend(128, 200)]).toEqual([false, true])
  })

  test('no single decision is sent at once', () => {
    const policy = behind()
    policy.onSent(1, 1, 200)
    expect(policy.sendsAtOnce(1, 200)).toBe(false)
  })

  test('takes that have waited a quarter of the round trip leave, in at most four batches', () => {
    const policy = behind()
    const leftMs: number[] = []
    for (let nowMs = 200; nowMs < 260; nowMs++) {
      if (!policy.maySend(1, nowMs)) continue
      policy.onSent(1, 1, nowMs)
      leftMs.push(nowMs)
    }
    expect(leftMs).toEqual([200, 205, 210, 215])
    expect(policy.retryInMs(260)).toBeUndefined()
  })

  test('a timer is set for that time', () => {
    const policy = behind()
    policy.onSent(1, 1, 200)
    expect(policy.retryInMs(201)).toBe(4)
  })

  test('the first quick reply ends it', () => {
    const policy = behind()
    exchange(policy, 1, WAY_MS, 200)
    expect(policy.isBehind).toBe(false)
  })

  test('it is still known after minutes', () => {
    const policy = behind()
    for (let s = 1; s <= 240; s++) exchange(policy, 8, 20, s * 1000)
    expect(policy.isBehind).toBe(true)
  })

  test('Redis is considered distant after some more minutes', () => {
    const policy = behind()
    for (let s = 1; s <= 330; s++) exchange(policy, 8, 20, s * 1000)
    expect([policy.isBehind, policy.shortestTripMs]).toEqual([false, 20])
  })

  test('a new connection resets it', () => {
    const policy = behind()
    policy.reset()
    expect([policy.isBehind, policy.shortestTripMs]).toEqual([false, Infinity])
  })
})

describe('the measured time of a take', () => {
  /** Pairs of batches of 100 takes in flight together, of which the first took this time. */
  function exchangePairs(policy: SendPolicy, pairs: number, firstUs: number): void {
    for (let i = 0; i < pairs; i++) {
      const atMs = i * 10
      const [first, second] = [policy.onSent(100, 1, atMs), policy.onSent(100, 1, atMs)]
      const storeUs = 1_700_000_000_000_000 + atMs * 1000
      answer(policy, first, WAY_MS + 1, storeUs)
      answer(policy, second, WAY_MS + 2, storeUs + firstUs)
    }
  }

  test('follows a shorter time between two queued batches at once', () => {
    const policy = opened()
    exchangePairs(policy, 1, 210)
    expect(policy.takeMs).toBeCloseTo(0.002, 6)
  })

  test('follows a longer time only gradually', () => {
    const policy = opened()
    exchangePairs(policy, 1, 1010)
    expect(policy.takeMs).toBeLessThan(0.0042)
    exchangePairs(policy, 500, 1010)
    expect(policy.takeMs).toBeCloseTo(0.01, 3)
  })

  test.each([
    ['a clock of the store that steps back', -1_000_000, 0.004],
    ['a clock of the store that steps ahead', 3_600_000_000, 0.02],
    ['two batches at the same instant', 0, 0.004],
  ])('stays within bounds with %s', (_, firstUs, most) => {
    const policy = opened()
    exchangePairs(policy, 200, firstUs)
    expect(policy.takeMs).toBeGreaterThanOrEqual(0.001)
    expect(policy.takeMs).toBeLessThanOrEqual(most)
  })

  test('ignores batches that were not in flight together', () => {
    const policy = opened()
    for (let i = 0; i < 10; i++) {
      answer(policy, policy.onSent(100, 1, i * 10), WAY_MS, 1_700_000_000_000_000 + i * 10_000)
    }
    expect(policy.takeMs).toBe(0.004)
  })
})

test('a batch that ends without an answer makes room and is not measured', () => {
  const policy = opened()
  const batches = Array.from({ length: 64 }, () => policy.onSent(1, 1, 0))
  for (const batch of batches.toReversed()) policy.onCompleted(batch)
  expect([policy.inFlight, policy.isBehind, policy.shortestTripMs]).toEqual([0, false, WAY_MS])
  for (const batch of batches) policy.onCompleted(batch)
  expect(policy.inFlight).toBe(0)
})
