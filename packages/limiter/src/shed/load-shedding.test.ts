/** `shed` of the rules, with a load that tests set. */
import { describe, expect, test } from 'vitest'
import { createLimiter } from '../index.js'
import { FakeScheduler } from '../redis/connection/channel.test-helper.js'
import { manualClock } from '../testing/index.js'

const SET = {
  priorities: ['critical', 'reads'],
  classify: [{ match: { path: '/pay' }, as: 'critical' }],
  shed: { loop: '50ms', keep: ['critical'] },
  rules: [{ id: 'per-user', by: ['user'], limits: ['1000/second'] }],
}

function setUp(more: object = {}, load: () => number = () => 9) {
  const clock = manualClock()
  const scheduler = new FakeScheduler()
  const monotonicMs = () => clock.now() / 1000
  const rules = { ...SET, ...more }
  const limiter = createLimiter({ rules, clock, scheduler, monotonicMs, load })
  const check = (path: string, user = 'u1') =>
    limiter.checkSync({ attributes: { path, user, method: 'GET' } })
  const second = async () => {
    clock.advance(1000)
    await scheduler.advance(1000)
  }
  const overload = async () => {
    for (let i = 0; i < 10; i++) {
      for (let user = 0; user < 90; user++) check('/list', `u${user}`)
      for (let user = 0; user < 10; user++) check('/pay', `u${user}`)
      await second()
    }
  }
  return { limiter, check, overload, second, scheduler }
}

describe('shed', () => {
  test('refuses calls of low priorities before their rules, without a charge', async () => {
    const { limiter, check, overload } = setUp({ shed: { loop: '50ms', most: '99%' } })
    await overload()
    expect(check('/list')).toMatchObject({
      allowed: false,
      reason: 'shed',
      rule: null,
      source: 'local',
      priority: 'reads',
    })
    expect(check('/list').policies()).toEqual([])
    expect(limiter.shedding).toMatchObject({ failures: 0 })
    expect(limiter.shedding?.shed.get('reads')?.enforce).toBeGreaterThan(0)
    await limiter.close()
  })

  test('keeps the priorities that it is told to', async () => {
    const { check, overload, limiter } = setUp()
    await overload()
    expect(limiter.shedding?.share).toBeLessThan(0.11)
    for (let user = 0; user < 50; user++) expect(check('/pay', `u${user}`).allowed).toBe(true)
    await limiter.close()
  })

  test('serves all calls of a caller or none at the edge', async () => {
    const { check, overload, limiter } = setUp({ shed: { loop: '50ms', most: '50%' } })
    await overload()
    const served = Array.from({ length: 200 }, (_, user) => check('/list', `v${user}`).allowed)
    const again = served.map((_, user) => check('/list', `v${user}`).allowed)
    expect(again).toEqual(served)
    const share = served.filter(Boolean).length / served.length
    expect(share).toBeGreaterThan(0.2)
    expect(share).toBeLessThan(0.8)
    await limiter.close()
  })

  test('peek and explain say what check would, and count nothing', async () => {
    const { limiter, overload } = setUp({ shed: { loop: '50ms', most: '99%' } })
    await overload()
    const { enforce } = limiter.shedding?.shed.get('reads') ?? { enforce: 0 }
    const list = { attributes: { path: '/list', user: 'u1', method: 'GET' } }
    const shed = { allowed: false, reason: 'shed', rule: null, priority: 'reads' }
    expect(await limiter.peek(list)).toMatchObject(shed)
    expect(await limiter.explain(list)).toMatchObject({
      ...shed,
      explain: [{ rule: 'per-user', matched: true }],
    })
    expect(limiter.shedding?.shed.get('reads')?.enforce).toBe(enforce)
    await limiter.close()
  })

  test('in shadow only counts', async () => {
    const { check, overload, limiter } = setUp({ shed: { loop: '50ms', mode: 'shadow' } })
    await overload()
    expect(check('/list').allowed).toBe(true)
    expect(limiter.shedding?.shed.get('reads')).toMatchObject({ enforce: 0 })
    expect(limiter.shedding?.shed.get('reads')?.shadow).toBeGreaterThan(0)
    await limiter.close()
  })

  test('a load that fails or is no number lets every call pass, and is counted', async () => {
    const broken = () => {
      throw new Error('no load')
    }
    for (const load of [broken, () => Number.NaN]) {
      const { check, overload, limiter } = setUp({}, load)
      await overload()
      expect(check('/list').allowed).toBe(true)
      expect(limiter.shedding).toMatchObject({ share: 1, failures: 10 })
      await limiter.close()
    }
  })

  test('ends with rules that do not shed', async () => {
    const { check, overload, limiter, second } = setUp()
    await overload()
    limiter.setRules({ ...SET, shed: { loop: '50ms', mode: 'off' } })
    expect(check('/list').allowed).toBe(true)
    await second()
    expect(limiter.shedding?.share).toBe(1)
    await limiter.close()
  })

  test('without a load has no effect', () => {
    const limiter = createLimiter({ rules: SET })
    expect(limiter.shedding).toBeUndefined()
    expect(limiter.checkSync({ attributes: { user: 'u1' } })).toMatchObject({ priority: 'reads' })
  })

  test('a call without a matching rule has a priority, in its explanation too', async () => {
    const limiter = createLimiter({ rules: SET })
    const unmatched = { reason: 'unmatched', priority: 'reads' }
    expect(limiter.checkSync({ attributes: {} })).toMatchObject(unmatched)
    expect(await limiter.peek({ attributes: {} })).toMatchObject(unmatched)
    expect(await limiter.explain({ attributes: {} })).toMatchObject(unmatched)
  })

  test('a load that is no function is refused', () => {
    expect(() => createLimiter({ rules: SET, load: 1 as unknown as () => number })).toThrow(
      'load: found number; accepted: a function that returns how busy the process is; 1 is full',
    )
  })
})
