import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Decision } from './index.js'
import { call, perUser, user } from './limiter.test-helper.js'
import { scripted, settled } from './scripted-store.test-helper.js'

const window = (max: number) => ({ algorithm: 'fixed-window', max, window: '1h' })
const hedged = (max: number, more: object = {}) => perUser([window(max)], { hedge: true, ...more })

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** The decision of a call whose store answers after this many milliseconds. */
async function within(pending: Promise<Decision>, ms: number): Promise<Decision | undefined> {
  let decided: Decision | undefined
  void pending.then((decision) => {
    decided = decision
  })
  await vi.advanceTimersByTimeAsync(ms)
  return decided
}

describe('hedging', () => {
  test('a hedged call is decided by a fast store, which returns states', async () => {
    const { limiter, store } = await scripted(hedged(3))
    expect(await limiter.check(user('u1'))).toMatchObject({ source: 'store', remaining: 2 })
    expect(store.requests[0]?.options?.states).toBe(true)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a hedged call is answered from the last known state after a quarter of the deadline', async () => {
    const { limiter, store } = await scripted(hedged(3))
    await limiter.check(user('u1'))
    store.isHeld = true
    const first = limiter.check(user('u1'))
    expect(await within(first, 4)).toBeUndefined()
    expect(await within(first, 1)).toMatchObject({
      allowed: true,
      source: 'local',
      reason: 'within',
      remaining: 1,
    })
    // The grant is deducted from the state before the store confirms it.
    expect(await within(limiter.check(user('u1')), 5)).toMatchObject({ remaining: 0 })
  })

  test('a hedged call is not refused by a state, whatever its age: the store has the last word', async () => {
    const { limiter, store } = await scripted(hedged(2))
    await limiter.check(user('u1', 2))
    store.clock.advance(60_000)
    await store.inner.reset(store.requests[0]?.groups[0]?.[0]?.key ?? fail())
    store.isHeld = true
    const pending = limiter.check(user('u1'))
    expect(await within(pending, 15)).toBeUndefined()
    store.release()
    expect(await pending).toMatchObject({ allowed: true, source: 'store', remaining: 1 })
    expect(store.gives).toEqual([])
  })

  test('a hedged call is not answered from the state of a counter to which this node returned units', async () => {
    const { limiter, store } = await scripted(hedged(3))
    await limiter.check(user('u1'))
    await limiter.refund(user('u1'))
    store.isHeld = true
    const pending = limiter.check(user('u1'))
    expect(await within(pending, 15)).toBeUndefined()
    store.release()
    expect(await pending).toMatchObject({ source: 'store', remaining: 2 })
  })

  test.each([
    ['of its own', perUser([{ ...window(3), algorithm: 'sliding-window-log' }], { hedge: true })],
    [
      'of a shadow rule',
      [
        ...hedged(3),
        {
          id: 'trial',
          by: ['user'],
          limits: [{ ...window(3), algorithm: 'sliding-window-log' }],
          mode: 'shadow',
        },
      ],
    ],
  ])(
    'a hedged call with a log %s waits for the store, which returns no states',
    async (_, rules) => {
      const { limiter, store } = await scripted(rules)
      await limiter.check(user('u1'))
      store.isHeld = true
      const pending = limiter.check(user('u1'))
      expect(await within(pending, 15)).toBeUndefined()
      store.release()
      expect(await pending).toMatchObject({ source: 'store', remaining: 1 })
      expect(store.requests.map(({ options }) => options?.states)).toEqual([false, false])
    },
  )

  test('a hedged call uses the deadline of its rule', async () => {
    const { limiter, store } = await scripted(hedged(3, { deadline: '400ms' }))
    await limiter.check(user('u1'))
    store.isHeld = true
    const slow = limiter.check(user('u1'))
    expect(await within(slow, 99)).toBeUndefined()
    expect(await within(slow, 1)).toMatchObject({ source: 'local' })
  })

  test('a hedged call is not answered from a state that was read before a reset and came after it', async () => {
    const { limiter, store } = await scripted(hedged(1))
    const take = store.take.bind(store)
    let arrive = () => {}
    store.take = async (groups, options) => {
      const answers = await take(groups, options)
      await new Promise<void>((resolve) => {
        arrive = resolve
      })
      return answers
    }
    const before = limiter.check(user('u1'))
    await settled()
    await limiter.reset(user('u1'))
    arrive()
    expect(await before).toMatchObject({ allowed: true })
    const after = limiter.check(user('u1'))
    expect(await within(after, 15)).toBeUndefined()
    arrive()
    expect(await after).toMatchObject({ allowed: true, source: 'store' })
  })

  test('a hedged call waits for the store if a counter is unknown', async () => {
    const { limiter, store } = await scripted(hedged(3))
    store.isHeld = true
    const slow = limiter.check(user('u1'))
    expect(await within(slow, 15)).toBeUndefined()
    store.release()
    expect(await slow).toMatchObject({ source: 'store', remaining: 2 })
  })

  test('a hedged call waits for the store if an enforced rule is not hedged, whatever shadow rules say', async () => {
    const rules = [
      ...hedged(3),
      { id: 'plain', by: ['ip'], limits: [window(9)] },
      { id: 'trial', by: ['user'], limits: [window(1)], mode: 'shadow' },
    ]
    const { limiter, store } = await scripted(rules)
    const mixed = call({ user: 'u1', ip: '192.0.2.1' })
    await limiter.check(mixed)
    await limiter.check(user('u1'))
    store.isHeld = true
    expect(await within(limiter.check(mixed), 15)).toBeUndefined()
    expect(await within(limiter.check(user('u1')), 15)).toMatchObject({
      source: 'local',
      shadow: [],
    })
    store.release()
  })

  test('a hedged call is all or nothing', async () => {
    const rules = [
      { id: 'a', by: ['user'], limits: [window(10)], hedge: true },
      { id: 'b', by: ['ip'], limits: [window(1)], hedge: true },
    ]
    const { limiter, store } = await scripted(rules)
    const both = call({ user: 'u1', ip: '192.0.2.1' })
    await limiter.check(both)
    store.isHeld = true
    expect(await within(limiter.check(both), 5)).toBeUndefined()
    expect(await within(limiter.check(call({ user: 'u1' })), 5)).toMatchObject({ remaining: 8 })
  })

  test('the state of a hedged call is replaced by the store’s', async () => {
    const { limiter, store } = await scripted(hedged(100))
    await limiter.check(user('u1'))
    store.inner.sync.take([[{ ...(store.requests[0]?.groups[0]?.[0] ?? fail()), amount: 50 }]])
    store.isHeld = true
    expect(await within(limiter.check(user('u1')), 5)).toMatchObject({ remaining: 98 })
    store.release()
    await settled()
    store.isHeld = true
    expect(await within(limiter.check(user('u1')), 5)).toMatchObject({ remaining: 47 })
  })

  test.each([
    ['answers late', {}],
    ['never takes it', { fate: 'lost' }],
  ] as const)(
    'a hedged call that was admitted early begins no block if the store %s',
    async (_, { fate }: { readonly fate?: 'lost' }) => {
      const limit = { algorithm: 'fixed-window', max: 1, window: '1s', block: '5s' }
      const { limiter, store } = await scripted(perUser([limit], { hedge: true }))
      await limiter.check(user('u1'))
      expect(await limiter.check(user('u1'))).toMatchObject({ allowed: false, reason: 'blocked' })
      store.clock.advance(6000)
      expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true })
      store.clock.advance(1000)
      store.isHeld = true
      if (fate !== undefined) store.all(fate)
      const early = await within(limiter.check(user('u1')), 5)
      expect(early).toMatchObject({ allowed: true, source: 'local' })
      store.isHeld = false
      store.release()
      await settled()
      store.comeLate()
      store.recover()
      await settled()
      expect(store.charges.map(({ limit: { algorithm } }) => algorithm)).not.toContain('block')
      store.clock.advance(1000)
      expect(await limiter.check(user('u1'))).toMatchObject({ allowed: true })
    },
  )

  test('a hedged call that was admitted early is charged later if the store never took it', async () => {
    const { limiter, store } = await scripted(hedged(5))
    await limiter.check(user('u1'))
    store.isHeld = true
    expect(await within(limiter.check(user('u1', 2)), 5)).toMatchObject({ allowed: true })
    store.all('not-run')
    store.release()
    await settled()
    expect(limiter.stats?.reportsWaiting).toBe(1)
    store.recover()
    await settled()
    expect((await limiter.peek(user('u1'))).remaining).toBe(2)
  })

  test('a hedged call whose fate becomes known late is reconciled then', async () => {
    const { limiter, store } = await scripted(hedged(5))
    await limiter.check(user('u1'))
    store.isHeld = true
    expect(await within(limiter.check(user('u1')), 5)).toMatchObject({ allowed: true })
    store.all('lost')
    store.release()
    await settled()
    expect(limiter.stats?.reportsWaiting).toBe(0)
    store.comeLate()
    expect(limiter.stats?.reportsWaiting).toBe(1)
  })

  test('a hedged call is decided by posture if the store does not answer and no state is known', async () => {
    const { limiter, store } = await scripted(hedged(2))
    store.all('not-run')
    expect(await limiter.check(user('u1'))).toMatchObject({ source: 'posture' })
    store.script.error = new Error('gone')
    expect(await limiter.check(user('u1'))).toMatchObject({ source: 'posture' })
  })
})

function fail(): never {
  throw new Error('nothing was asked')
}
