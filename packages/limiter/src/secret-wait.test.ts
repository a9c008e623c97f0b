import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createLimiter } from './index.js'
import { perUser, user } from './limiter.test-helper.js'
import { limiterOver, ScriptedStore, settled } from './scripted-store.test-helper.js'

const rules = perUser([{ algorithm: 'fixed-window', max: 2, window: '1h' }])
const SECRET = new Uint8Array(16).fill(7)
/** How long a turn of the event loop, which reads the sockets, takes with these timers. */
const READ_MS = 1

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function start() {
  let resolve: (secret: Uint8Array) => void = () => {}
  let reject: (error: Error) => void = () => {}
  const secret = new Promise<Uint8Array>((yes, no) => {
    resolve = yes
    reject = no
  })
  const store = new ScriptedStore({ secret })
  return { store, limiter: limiterOver(store, rules), resolve, reject }
}

describe('until the store has provided the hash secret', () => {
  test('a call waits for the secret, and is counted under it', async () => {
    const { store, limiter, resolve } = start()
    const pending = limiter.check(user('u1'))
    await vi.advanceTimersByTimeAsync(19)
    expect(store.requests).toEqual([])
    resolve(SECRET)
    expect(await pending).toMatchObject({ source: 'store', remaining: 1 })
    const twin = createLimiter({ rules, store, secret: SECRET })
    expect(await twin.check(user('u1'))).toMatchObject({ remaining: 0 })
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a call that waited until its deadline is decided by posture, and nothing reaches the store', async () => {
    const { store, limiter } = start()
    const pending = limiter.check(user('u1'))
    const peeked = limiter.peek(user('u1'))
    await vi.advanceTimersByTimeAsync(20 + READ_MS)
    expect(await pending).toMatchObject({ allowed: true, source: 'posture' })
    expect(await peeked).toMatchObject({ allowed: true, source: 'posture' })
    expect(store.requests).toEqual([])
    store.recover()
    await vi.advanceTimersByTimeAsync(1000)
    expect(store.charges).toEqual([])
  })

  test('a rule’s own deadline holds', async () => {
    const { limiter } = start()
    limiter.setRules([{ ...rules[0], deadline: '3ms' }])
    const pending = limiter.check(user('u1'))
    await vi.advanceTimersByTimeAsync(3 + READ_MS)
    expect(await pending).toMatchObject({ source: 'posture' })
  })

  test('a secret that arrived while the process was too busy to read is used', async () => {
    const { limiter, resolve } = start()
    const pending = limiter.check(user('u1'))
    // Read in the turn of the loop in which the deadline is found to have passed.
    setTimeout(resolve, 20, SECRET)
    await vi.advanceTimersByTimeAsync(20 + READ_MS)
    expect(await pending).toMatchObject({ source: 'store' })
  })

  test('new rules are accepted, invalid ones refused, and the valid ones used with the secret', async () => {
    const { limiter, resolve } = start()
    expect(() => limiter.setRules('rules: 7')).toThrow(/error in the rules/)
    limiter.setRules(perUser(['9/hour']))
    resolve(SECRET)
    await limiter.ready()
    expect(await limiter.check(user('u1'))).toMatchObject({ remaining: 8, source: 'store' })
  })

  test('a refund and a reset wait, then fail and change nothing', async () => {
    const { limiter } = start()
    const refund = limiter.refund(user('u1'))
    const reset = limiter.reset(user('u1'))
    const failures = Promise.allSettled([refund, reset])
    await vi.advanceTimersByTimeAsync(20 + READ_MS)
    expect(await failures).toMatchObject([
      { reason: { code: 'STORE_FAILED', message: /nothing was given back/ } },
      { reason: { code: 'STORE_FAILED', message: /nothing was reset/ } },
    ])
  })

  test('a receipt is written and read with the final secret', async () => {
    const { store, limiter, resolve } = start()
    const pending = limiter.check(user('u1'), { receipt: true })
    resolve(SECRET)
    const { receipt = '' } = await pending
    await createLimiter({ rules, store, secret: SECRET }).refund(receipt)
    expect(store.gives).toHaveLength(1)
  })

  test('a call that has waited for the secret waits only for the rest of its deadline', async () => {
    const { store, limiter, resolve } = start()
    const first = limiter.check(user('u1'))
    await vi.advanceTimersByTimeAsync(10)
    store.clock.advance(12.5)
    resolve(SECRET)
    await first
    await limiter.check(user('u1'))
    expect(store.requests.map(({ options }) => options?.deadlineMs)).toEqual([8, undefined])
  })

  test('misuse is reported at once', async () => {
    const { limiter } = start()
    await expect(limiter.check({} as never)).rejects.toMatchObject({ code: 'CALL_INVALID' })
    expect(await limiter.check({ attributes: { ip: 'x' } })).toMatchObject({ reason: 'unmatched' })
  })
})

describe('ready', () => {
  test('ready resolves at once in memory, and when the store has started elsewhere', async () => {
    await createLimiter({ rules }).ready()
    const { limiter, resolve } = start()
    let isReady = false
    void limiter.ready().then(() => {
      isReady = true
    })
    await settled()
    expect(isReady).toBe(false)
    resolve(SECRET)
    await settled()
    expect(isReady).toBe(true)
  })

  test('ready rejects with the reason why the store did not start, and calls are still decided at once', async () => {
    const { store, limiter, reject } = start()
    const pending = limiter.check(user('u1'))
    reject(new Error('another secret'))
    await expect(limiter.ready()).rejects.toThrow('another secret')
    expect(await pending).toMatchObject({ source: 'posture' })
    expect(await limiter.check(user('u1'))).toMatchObject({ source: 'posture' })
    expect(await limiter.limits(user('u1'))).toMatchObject([{ remaining: 0 }])
    expect(store.requests).toEqual([])
  })

  test('ready rejects if the secret of the store is invalid', async () => {
    const { limiter, resolve } = start()
    resolve(new Uint8Array(3))
    await expect(limiter.ready()).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })

  test('ready waits for the store even if a secret was configured; calls do not', async () => {
    const store = new ScriptedStore({ secret: Promise.reject(new Error('no policy')) })
    const limiter = createLimiter({ rules, store, secret: SECRET })
    expect(await limiter.check(user('u1'))).toMatchObject({ source: 'store' })
    await expect(limiter.ready()).rejects.toThrow('no policy')
  })
})
