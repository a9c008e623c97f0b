import { ceilingLimit, type CounterKey, defineLimit, type Limit, type Take } from '@sluice/core'
import { beforeEach, describe, expect, test } from 'vitest'
import { createLimiter } from '../limiter.js'
import { ScriptedStore, settled } from '../scripted-store.test-helper.js'
import type { Store } from '../store.js'
import { FakeScheduler } from '../redis/connection/channel.test-helper.js'
import { RegionResetError } from './region-reset-error.js'
import { regionalStore, type RegionalStore } from './regional-store.js'

const merged = (limit: Limit): Limit => ({ ...limit, isMerged: true })
const WINDOW = merged(defineLimit({ algorithm: 'fixed-window', max: 10, windowMs: 60_000 }))
const APART = defineLimit({ algorithm: 'fixed-window', max: 10, windowMs: 60_000, name: 'apart' })
const KEY: CounterKey = { hi: 1, lo: 2, partition: 3 }
const OTHER: CounterKey = { hi: 1, lo: 4, partition: 3 }

const take = (amount: number, more: Partial<Take> = {}): Take => ({
  key: KEY,
  limit: WINDOW,
  amount,
  ...more,
})
const notRun = Object.assign(new Error('not run'), { silence: 'not-run' })
const unknown = Object.assign(new Error('unknown'), { silence: 'unknown' })

let own: ScriptedStore
let us: ScriptedStore
let ap: ScriptedStore
let scheduler: FakeScheduler
let store: RegionalStore

beforeEach(() => {
  own = new ScriptedStore()
  us = new ScriptedStore()
  ap = new ScriptedStore()
  scheduler = new FakeScheduler()
  store = regionalStore({
    region: 'eu',
    store: own,
    others: { us, ap },
    scheduler,
    monotonicMs: () => own.clock.now() / 1000,
  })
})

/** One round of half of `syncEvery`. */
async function round(ms = 50): Promise<void> {
  for (const each of [own, us, ap]) each.clock.advance(ms)
  await scheduler.advance(ms)
  await settled()
}

const used = (of: ScriptedStore, key = KEY) =>
  10 - (of.inner.sync.peek([[{ key, limit: WINDOW, amount: 0 }]])[0]?.[0]?.remaining ?? 0)
const charged = ({ charges }: ScriptedStore) => charges.map(({ amount }) => amount)

test('stores that are none are refused', () => {
  const none = JSON.parse('{}') as Store
  for (const options of [
    { store: none, others: { us } },
    { store: own, others: { us: none } },
  ]) {
    expect(() => regionalStore({ region: 'eu', ...options })).toThrow(/^store: found .*accepted: /)
  }
})

describe('what a region takes', () => {
  test('is charged in every other region in the next round, and once', async () => {
    await store.take([[take(2)]])
    await store.take([[take(3)]])
    expect([used(us), used(ap)]).toEqual([0, 0])
    await round()
    expect([used(own), used(us), used(ap)]).toEqual([5, 5, 5])
    await round()
    await round()
    expect([charged(us), charged(ap)]).toEqual([[5], [5]])
    expect(store.regionStats().map(({ region, fates }) => [region, fates.sent])).toEqual([
      ['us', 5],
      ['ap', 5],
    ])
  })

  test('is not told if it was refused, cost nothing, or belongs to a limit that is not merged', async () => {
    await store.take([[take(20)]])
    await store.take([[take(0)]])
    await store.take([[take(5, { limit: APART, key: OTHER })]])
    await store.take([[take(5), take(20, { key: OTHER })]])
    await round()
    expect([charged(us), charged(ap)]).toEqual([[], []])
  })

  test('is not told where it was charged for a refusal', async () => {
    const limit = merged(
      defineLimit({ algorithm: 'fixed-window', max: 10, windowMs: 60_000, onRefusal: 'charge' }),
    )
    await store.take([[take(20, { limit })]])
    expect(used(own)).toBe(10)
    await round()
    expect(charged(us)).toEqual([])
  })

  test('is told with what was overdrawn', async () => {
    const limit = merged(
      defineLimit({ algorithm: 'fixed-window', max: 10, windowMs: 60_000, onRefusal: 'overdraw' }),
    )
    await store.take([[take(12, { limit, overdraw: true })]])
    await round()
    expect(charged(us)).toEqual([12])
  })

  test('is told from the group that was charged only', async () => {
    await store.take([[take(2)], [take(20, { key: OTHER })]])
    await round()
    expect(us.charges.map(({ key, amount }) => [key.lo, amount])).toEqual([[2, 2]])
  })

  test('is told with the time at which the own store took it', async () => {
    await store.take([[take(1)]])
    const takenAt = own.clock.now()
    us.clock.advance(-3000)
    await round()
    expect(us.charges[0]?.at).toBe(takenAt)
  })

  test('is charged down to a debt of one limit for each region', async () => {
    await store.take([[take(9)]])
    await us.inner.charge({ key: KEY, limit: WINDOW, amount: 8, at: us.clock.now(), debt: 0 })
    await round()
    expect(us.charges[0]?.debt).toBe(30)
    const [[after] = []] = us.inner.sync.take([[take(1)]])
    expect(after?.granted).toBe(0)
  })

  test('is charged to a sliding counter up to its max, so that the next window refuses nobody', async () => {
    const sliding = defineLimit({
      algorithm: 'sliding-window-counter',
      max: 10,
      windowMs: 60_000,
    })
    const limit = merged(sliding)
    await store.take([[take(9, { limit })]])
    await us.inner.charge({ key: KEY, limit, amount: 8, at: us.clock.now(), debt: 0 })
    await round()
    const inState = (of: ScriptedStore) => of.inner.sync.peek([[take(0, { limit })]])[0]?.[0]?.state
    expect(inState(us)).toMatchObject({ curr: 10 })
  })

  test.each(['sliding-window-counter', 'fixed-window'] as const)(
    'of the reserve above a ceiling is counted after calls under it: %s',
    async (algorithm) => {
      const limit = merged(defineLimit({ algorithm, max: 10, windowMs: 60_000 }))
      const under = ceilingLimit(limit, [5000])
      await us.inner.charge({ key: KEY, limit, amount: 4, at: us.clock.now(), debt: 0 })
      await store.take([[take(4, { limit })]])
      await store.take([[take(1, { limit: under })]])
      await round()
      const [[left] = []] = us.inner.sync.peek([[take(0, { limit })]])
      expect(left?.remaining).toBe(1)
    },
  )

  test('is charged to a bucket as late as its debt takes to be regained', async () => {
    const bucket = defineLimit({ algorithm: 'token-bucket', max: 10, windowMs: 1000, debt: 30 })
    await store.take([[take(4, { limit: merged(bucket) })]])
    await round()
    expect(us.charges[0]).toMatchObject({ debt: 30, at: own.clock.now() - 50_000 + 3_000_000 })
  })

  test('is told to a limiter that asks without options, and never changes its answer', async () => {
    const answers = await store.take([[take(4)]])
    expect(answers[0]?.[0]).toMatchObject({ granted: 4, remaining: 6 })
    const refused = await store.take([[take(7)]], { states: true })
    expect(refused[0]?.[0]).toMatchObject({ granted: 0, state: { count: 4 } })
  })
})

describe('what becomes known late', () => {
  test('is told once it is known, and what was known before is not told again', async () => {
    own.script.fate = (_, i) => (i === 0 ? 'answer' : 'ran')
    const late: unknown[] = []
    const takes = [take(2), take(3, { key: OTHER })]
    const answers = await store.take([takes], { onLate: (groups) => void late.push(groups) })
    expect(answers[0]?.[1]).toBe('unknown')
    await round()
    expect(us.charges.map(({ key, amount }) => [key.lo, amount])).toEqual([[2, 2]])
    own.comeLate()
    await round()
    expect(us.charges.map(({ key, amount }) => [key.lo, amount])).toEqual([
      [2, 2],
      [4, 3],
    ])
    expect(late).toHaveLength(1)
  })

  test('is told once if it becomes known at the same time as the answer', async () => {
    const granted = await own.take([[take(2), take(3, { key: OTHER })]])
    const [[first, second] = []] = granted
    if (first === undefined || second === undefined) throw new Error('no answers')
    own.take = (_, options) =>
      new Promise((resolve) => {
        setImmediate(() => {
          resolve([[first, 'unknown']])
          options?.onLate?.([[first, second]])
        })
      })
    await store.take([[take(2), take(3, { key: OTHER })]])
    await round()
    expect(us.charges.map(({ key, amount }) => [key.lo, amount])).toEqual([
      [2, 2],
      [4, 3],
    ])
  })

  test('is told when nobody asked for late answers', async () => {
    own.all('ran')
    await store.take([[take(2)]])
    own.comeLate()
    await round()
    expect(charged(us)).toEqual([2])
  })

  test('is nothing if it did not run', async () => {
    own.all('lost')
    await store.take([[take(2)]])
    own.comeLate()
    await round()
    expect(charged(us)).toEqual([])
  })
})

describe('what a region returns', () => {
  test('is given back in every other region, to its window', async () => {
    await store.take([[take(5)]])
    const at = own.clock.now()
    await round()
    await store.give({ key: KEY, limit: WINDOW, amount: 2, at })
    await round()
    expect([used(own), used(us), used(ap)]).toEqual([3, 3, 3])
    expect(us.gives).toMatchObject([{ amount: 2, at }])
  })

  test('needs no trip if the others do not know of it yet', async () => {
    await store.take([[take(5)]])
    await store.give({ key: KEY, limit: WINDOW, amount: 5, at: own.clock.now() })
    await round()
    expect([us.charges.length, us.gives.length, used(us)]).toEqual([0, 0, 0])
  })

  test('is told by a take of an amount below 0, such as that of a settlement', async () => {
    await store.take([[take(5)]])
    const at = own.clock.now()
    await round()
    await store.take([[take(-3, { at })]])
    await round()
    expect([used(own), used(us)]).toEqual([2, 2])
  })

  test('is told for the present window if it has no time', async () => {
    await store.take([[take(5)]])
    await round()
    await store.give({ key: KEY, limit: WINDOW, amount: 1 })
    await round()
    expect(used(us)).toBe(4)
  })

  test('is not told if the own store did not confirm it', async () => {
    await store.take([[take(5)]])
    await round()
    own.script.verbError = unknown
    const give = store.give({ key: KEY, limit: WINDOW, amount: 1, at: own.clock.now() })
    await expect(give).rejects.toBe(unknown)
    await round()
    expect(us.gives).toEqual([])
  })
})

describe('what a region is charged', () => {
  const charge = { key: KEY, limit: WINDOW, amount: 4, at: 0, debt: 0 }

  test('is told, also if it is not known whether the own store ran it', async () => {
    await store.charge({ ...charge, at: own.clock.now() })
    own.script.verbError = unknown
    const lost = store.charge({ ...charge, amount: 2, at: own.clock.now() })
    await expect(lost).rejects.toBe(unknown)
    await round()
    expect(charged(us)).toEqual([6])
  })

  test('is not told while it certainly did not run, because it comes again', async () => {
    own.script.verbError = notRun
    await expect(store.charge({ ...charge, at: own.clock.now() })).rejects.toBe(notRun)
    own.recover()
    await store.charge({ ...charge, at: own.clock.now() })
    await round()
    expect(charged(us)).toEqual([4])
  })

  test('is told with the present time of a bucket, which nodes charge later', async () => {
    const limit = merged(defineLimit({ algorithm: 'token-bucket', max: 10, windowMs: 1000 }))
    const at = own.clock.now()
    await store.charge({ ...charge, limit, at: at + 500_000 })
    await round()
    expect(us.charges[0]?.at).toBe(at)
  })
})

describe('a region that does not answer', () => {
  test('is told again in the next round of what certainly did not run', async () => {
    us.script.verbError = notRun
    await store.take([[take(2)]])
    await round()
    await store.take([[take(3)]])
    us.recover()
    us.charges.length = 0
    await round()
    expect([charged(us), used(us)]).toEqual([[5], 5])
    expect(store.regionStats()[0]?.fates).toEqual({ sent: 5, unknown: 0, dropped: 0 })
  })

  test('is never told again of what may have run', async () => {
    us.script.verbError = unknown
    await store.take([[take(2)]])
    await round()
    us.recover()
    us.charges.length = 0
    await round()
    await round()
    expect(charged(us)).toEqual([])
    expect(store.regionStats()[0]?.fates).toEqual({ sent: 0, unknown: 2, dropped: 0 })
    expect(charged(ap)).toEqual([2])
  })

  test('gets nothing new while a report to it is on its way for too long, and all of it then', async () => {
    let answer = () => {}
    const slow: Store = Object.assign(Object.create(us), {
      charge: (charge: Parameters<Store['charge']>[0]) => {
        us.charges.push(charge)
        return new Promise<void>((resolve) => {
          answer = resolve
        })
      },
    })
    store = regionalStore({
      region: 'eu',
      store: own,
      others: { slow },
      scheduler,
      monotonicMs: () => own.clock.now() / 1000,
    })
    await store.take([[take(1)]])
    await round()
    await store.take([[take(1)]])
    await round()
    expect(charged(us)).toEqual([1, 1])
    for (let i = 0; i < 12; i++) await round()
    await store.take([[take(1)]])
    await round()
    expect(charged(us)).toEqual([1, 1])
    expect(store.regionStats()[0]).toMatchObject({ pending: 1 })
    expect(store.regionStats()[0]?.lagMs).toBeGreaterThan(500)
    answer()
    await settled()
  })

  test('gets nothing while its store says that it does not answer', async () => {
    let isAnswering = false
    const node = { isAnswering } as never
    const health = () => ({
      remote: {
        state: 'ready' as const,
        nodes: [Object.assign({}, node, { isAnswering })],
        fleet: { size: 1, ageMs: 0 },
      },
      memory: undefined,
      isPersistent: undefined,
    })
    Object.assign(us, { health })
    await store.take([[take(1)]])
    await round()
    expect(charged(us)).toEqual([])
    expect(store.regionStats()[0]).toMatchObject({ isAnswering: false, pending: 1 })
    isAnswering = true
    await round()
    expect(charged(us)).toEqual([1])
    expect(store.regionStats()[0]).toMatchObject({ isAnswering: true, pending: 0, lagMs: 0 })
  })

  test('is told of this window and the last after a partition, and of nothing older', async () => {
    us.script.verbError = notRun
    for (let minute = 0; minute < 3; minute++) {
      await store.take([[take(2 + minute)]])
      await round(60_000)
    }
    us.recover()
    us.charges.length = 0
    await round()
    expect(charged(us)).toEqual([4])
    expect(store.regionStats()[0]?.fates).toEqual({ sent: 4, unknown: 0, dropped: 5 })
  })
})

describe('a reset', () => {
  test('resets the counter in every region, with what the others have not been told', async () => {
    await store.take([[take(5)]])
    await round()
    await store.take([[take(2)]])
    await store.reset(KEY)
    await round()
    expect([used(own), used(us), used(ap)]).toEqual([0, 0, 0])
  })

  test('is not followed by what was taken before the own store ran it', async () => {
    await store.take([[take(5)]])
    await round()
    const inner = own.reset.bind(own)
    own.reset = async (key) => {
      await store.take([[take(2)]])
      return inner(key)
    }
    await store.reset(KEY)
    await round()
    expect([used(own), used(us), used(ap)]).toEqual([0, 0, 0])
  })

  test('names the regions that did not confirm it', async () => {
    await store.take([[take(5)]])
    await round()
    ap.script.verbError = unknown
    const reset = store.reset(KEY)
    await expect(reset).rejects.toBeInstanceOf(RegionResetError)
    await expect(reset).rejects.toMatchObject({ code: 'STORE_FAILED', regions: ['ap'] })
    expect([used(own), used(us), used(ap)]).toEqual([0, 0, 5])
  })

  test('fails if the own store does not confirm it', async () => {
    own.script.verbError = unknown
    await expect(store.reset(KEY)).rejects.toBe(unknown)
  })
})

describe('what all regions admit beyond a limit', () => {
  test('is measured on counters that are nearly used up, once the others have told theirs', async () => {
    await store.take([[take(8)]])
    await own.inner.charge({ key: KEY, limit: WINDOW, amount: 7, at: own.clock.now(), debt: 30 })
    await round(1000)
    expect(store.overage()).toBe(0)
    await store.reset(KEY)
    await store.take([[take(9)]])
    await own.inner.charge({ key: KEY, limit: WINDOW, amount: 6, at: own.clock.now(), debt: 30 })
    await round(1000)
    expect(store.overage()).toBe(0.5)
    await round(1000)
    expect(store.overage()).toBe(0)
  })

  test('is what a bucket owes', async () => {
    const bucket = defineLimit({ algorithm: 'token-bucket', max: 10, windowMs: 3_600_000 })
    const limit = merged({ ...bucket, borrowable: 20 })
    await store.take([[take(10, { limit })]])
    await own.inner.charge({ key: KEY, limit, amount: 4, at: own.clock.now(), debt: 20 })
    await round(1000)
    expect(store.overage()).toBe(0.4)
  })
})

test('what a limit with a debt of its own owes is no overage, because refused calls may owe it', async () => {
  const limit = merged(
    defineLimit({ algorithm: 'fixed-window', max: 10, windowMs: 60_000, onRefusal: 'overdraw' }),
  )
  await store.take([[take(18, { limit, overdraw: true })]])
  await round(1000)
  expect(store.overage()).toBe(0)
})

describe('closing', () => {
  test('tells the others what they do not know yet', async () => {
    await store.take([[take(5)]])
    await store.close()
    expect([charged(us), charged(ap)]).toEqual([[5], [5]])
    expect(scheduler.waiting).toBe(0)
  })
})

describe('the regions of a store', () => {
  test('are those of the limiter over it, which then splits and merges its limits', async () => {
    const rules = [
      { id: 'merged', by: [], limits: [{ algorithm: 'fixed-window', max: 6, window: '1m' }] },
      { id: 'split', by: [], limits: ['30/minute'], regions: 'split' },
    ]
    const limiter = createLimiter({ rules, store, clock: own.clock })
    await limiter.ready()
    const [policies] = [await limiter.limits({ attributes: {} })]
    expect(policies.map(({ limit }) => limit)).toEqual([6, 10])
    await limiter.check({ attributes: {} })
    await round()
    expect(us.charges).toHaveLength(1)
    await limiter.close()
  })

  test('answer what each of them has counted', async () => {
    await store.take([[take(5)]])
    us.script.peekError = new Error('gone')
    const peeked = await store.peekRegions(take(0))
    expect(peeked).toMatchObject([
      { region: 'us', problem: 'gone' },
      { region: 'ap', outcome: { remaining: 10 } },
    ])
  })

  test('must not name the own one twice', () => {
    const options = { region: 'eu', store: own, others: { eu: us } }
    expect(() => regionalStore(options)).toThrow('found eu among the others')
    const often = { region: 'eu', store: own, others: { us }, syncEveryMs: 5 }
    expect(() => regionalStore(often)).toThrow('syncEveryMs: found 5; accepted: a number from 20')
  })
})
