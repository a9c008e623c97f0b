import { defineLimit, type Take } from '@sluice/core'
import { beforeEach, describe, expect, test } from 'vitest'
import { Dice } from '../dice.test-helper.js'
import { FakeScheduler, settled } from '../redis/connection/channel.test-helper.js'
import type { Answer, Give } from '../store.js'
import { type Fate, FaultyStore, SharedCounters } from './faulty-store.test-helper.js'
import { Places } from './places.js'

const LEASE_MS = 9000
const key = { hi: 1, lo: 2, partition: 0 }
const limit = defineLimit({ algorithm: 'concurrency', max: 5, windowMs: 0, leaseMs: LEASE_MS })

let scheduler: FakeScheduler
let shared: SharedCounters
let store: FaultyStore
let places: Places
/** What the store says that it gave back itself. */
let returned: (give: Give, isConfirmed: Promise<boolean>) => void

beforeEach(() => {
  scheduler = new FakeScheduler()
  shared = new SharedCounters(scheduler)
  store = new FaultyStore(shared, new Dice(1))
  Object.assign(store.remote, {
    onPlacesReturned: (listener: typeof returned) => {
      returned = listener
    },
  })
  places = new Places({ store, scheduler, monotonicMs: () => scheduler.nowMs })
})

const takeOf = (amount = 1, holder = places.holder): Take => ({ key, limit, amount, holder })

/** Takes places, in the time that a request may take. */
async function take(amount = 1): Promise<Answer | undefined> {
  const answers = places.send([[takeOf(amount)]], {})
  await scheduler.advance(60)
  return (await answers)[0]?.[0]
}

const takenBy = (holder: number): number => {
  const [[{ state } = {}] = []] = shared.inner.sync.peek([[takeOf(0)]])
  const records = (state ?? []) as readonly number[]
  const at = records.findIndex((number, i) => i % 3 === 0 && number === holder)
  const [, count = 0, expires = 0] = at === -1 ? [] : records.slice(at, at + 3)
  return expires > shared.nowUs() ? count : 0
}

const taken = () => takenBy(places.holder)

/** Gives the next requests these fates, and all others an answer. */
function next(...fates: readonly Fate[]): void {
  const rest = [...fates]
  store.fateOf = () => rest.shift() ?? 'done'
}

test('a node holds places under a number of its own, and reservations under another', () => {
  const other = new Places({ store, scheduler, monotonicMs: () => scheduler.nowMs })
  const numbers = [places.holder, places.reservationHolder, other.holder, other.reservationHolder]
  expect(new Set(numbers).size).toBe(4)
  expect(places.holder).toBe(numbers[0])
})

describe('the lease of a record', () => {
  test('is renewed while a call takes longer than a third of it, and the places stay', async () => {
    await take(2)
    await scheduler.advance(LEASE_MS / 3 - 100)
    expect(store.charges).toEqual([])
    await scheduler.advance(5 * LEASE_MS)
    expect(taken()).toBe(2)
    expect(store.charges.length).toBeLessThanOrEqual(15)
    expect(new Set(store.charges.map(({ amount, debt }) => `${amount} ${debt}`))).toEqual(
      new Set(['2 0']),
    )
  })

  test('is renewed by takes alone while calls come and go', async () => {
    for (let call = 0; call < 40; call++) {
      await take()
      places.give(key, 1)
      await scheduler.advance(LEASE_MS / 10)
    }
    expect(store.charges).toEqual([])
    expect(taken()).toBe(0)
  })

  test('ends if the node dies, so that its places are free', async () => {
    await take(3)
    expect(taken()).toBe(3)
    // Nothing of the node runs any more; only the time of the store goes on.
    scheduler.nowMs += LEASE_MS
    expect(taken()).toBe(0)
  })

  test('is renewed again when the store has lost the record', async () => {
    await take(2)
    shared.inner.sync.reset(key)
    await scheduler.advance(LEASE_MS)
    expect(taken()).toBe(2)
  })

  test('is that of the last take, when the rule changes it', async () => {
    await take(1)
    const short = defineLimit({ algorithm: 'concurrency', max: 5, windowMs: 0, leaseMs: 1500 })
    const answers = places.send([[{ ...takeOf(), limit: short }]], {})
    await scheduler.advance(60)
    await answers
    await scheduler.advance(20_000)
    expect(taken()).toBe(2)
  })

  test('survives renewals that are lost', async () => {
    await take(1)
    next('lost', 'silent', 'not-run')
    await scheduler.advance(3 * LEASE_MS)
    expect(taken()).toBe(1)
  })
})

describe('a request whose fate is unknown', () => {
  test.each<Fate>(['silent', 'lost', 'not-run'])(
    'a give with the fate %s leaves no place taken',
    async (fate) => {
      await take(2)
      next(fate)
      places.give(key, 2)
      await scheduler.advance(LEASE_MS / 2)
      expect(taken()).toBe(0)
      await scheduler.advance(2 * LEASE_MS)
      expect(scheduler.waiting).toBe(0)
    },
  )

  test('a give that was lost leaves the places of other calls as they are', async () => {
    await take(3)
    next('lost')
    places.give(key, 1)
    await scheduler.advance(LEASE_MS / 2)
    expect(taken()).toBe(2)
    expect(store.charges).toContainEqual(expect.objectContaining({ amount: 2, debt: 1 }))
  })

  test('a take that ran without an answer holds no place for long', async () => {
    await take(1)
    next('silent')
    expect(await take(2)).toBe('unknown')
    await scheduler.advance(LEASE_MS / 2)
    expect(taken()).toBe(1)
  })

  test('a place that is granted too late is given back at once', async () => {
    next('late')
    expect(await take(2)).toBe('unknown')
    expect(taken()).toBe(2)
    await scheduler.advance(3100)
    expect(store.gives).toMatchObject([{ amount: 2, at: places.holder }])
    expect(taken()).toBe(0)
  })

  test('a take that fails altogether is repaired like one without an answer', async () => {
    await take(1)
    const failing = Object.assign(store, { take: () => Promise.reject(new Error('broken')) })
    await expect(places.send([[takeOf()]], {})).rejects.toThrow('broken')
    expect(failing.charges).toEqual([])
    await scheduler.advance(LEASE_MS / 2)
    expect(store.charges).toContainEqual(expect.objectContaining({ amount: 1, debt: 1 }))
  })

  test('places that the store could not give back itself are repaired', async () => {
    await take(1)
    shared.inner.sync.take([[takeOf(2)]])
    returned({ key, limit, amount: 2, at: places.holder }, Promise.resolve(false))
    await scheduler.advance(LEASE_MS / 2)
    expect(taken()).toBe(1)
  })

  test('a record is not repaired while the store gives places back', async () => {
    await take(1)
    next('not-run')
    places.give(key, 1)
    returned({ key, limit, amount: 1, at: places.holder }, new Promise(() => {}))
    await scheduler.advance(LEASE_MS)
    expect(store.charges).toEqual([])
  })
})

describe('while a record is repaired', () => {
  /** Brings a record into repair: its charge is not answered before its deadline. */
  async function startRepair(): Promise<void> {
    await take(1)
    next('lost', 'lost')
    places.give(key, 1)
    while (store.charges.length === 0) await scheduler.advance(50)
  }

  test('a take waits for it, and is not sent if its deadline comes first', async () => {
    await startRepair()
    const answers = places.send([[takeOf()]], { deadlineMs: 40 })
    await scheduler.advance(41)
    expect(await answers).toEqual([['not-run']])
    expect(taken()).toBeLessThanOrEqual(1)
  })

  test('a take is sent when it ends, for the rest of its deadline', async () => {
    await startRepair()
    const answers = places.send([[takeOf(3)]], { deadlineMs: 5000 })
    await scheduler.advance(5000)
    expect((await answers)[0]?.[0]).toMatchObject({ granted: 3 })
    await scheduler.advance(LEASE_MS)
    expect(taken()).toBe(3)
  })

  test('a take of another counter does not wait', async () => {
    await startRepair()
    const other = { ...takeOf(), key: { hi: 9, lo: 9, partition: 0 } }
    const answers = places.send([[other]], { deadlineMs: 50 })
    await scheduler.advance(60)
    expect((await answers)[0]?.[0]).toMatchObject({ granted: 1 })
  })
})

test('takes of others, of nothing, and of limits in time are not followed', async () => {
  const rate = defineLimit({ algorithm: 'fixed-window', max: 5, windowMs: 1000 })
  const groups = [[{ key, limit: rate, amount: 1 }], [takeOf(0)], [takeOf(1, 99)]]
  const answers = places.send(groups, {})
  await scheduler.advance(60)
  await answers
  places.give(key, 1)
  expect(store.gives).toEqual([])
  expect(scheduler.waiting).toBe(0)
})

describe('a reservation', () => {
  test('its record is only kept alive, so that any node may settle it', async () => {
    const holder = places.reservationHolder
    const stop = places.keep(key, limit, holder, 60_000)
    shared.inner.sync.take([[takeOf(3, holder)]])
    await scheduler.advance(2 * LEASE_MS)
    expect(takenBy(holder)).toBe(3)
    shared.inner.sync.give({ key, limit, amount: 2, at: holder })
    await scheduler.advance(2 * LEASE_MS)
    expect(takenBy(holder)).toBe(1)
    stop()
    stop()
    await scheduler.advance(LEASE_MS + LEASE_MS / 3)
    expect(takenBy(holder)).toBe(0)
  })

  test('its record is not fed for ever: what the store counts too much is free some day', async () => {
    const first = places.reservationHolder
    // A place whose settle was lost.
    shared.inner.sync.take([[takeOf(1, first)]])
    for (let minutes = 0; minutes < 30; minutes++) {
      const holder = places.reservationHolder
      shared.inner.sync.take([[takeOf(1, holder)]])
      const stop = places.keep(key, limit, holder, scheduler.nowMs + 3_600_000)
      await scheduler.advance(60_000)
      shared.inner.sync.give({ key, limit, amount: 1, at: holder })
      stop()
    }
    expect(places.reservationHolder).not.toBe(first)
    expect(takenBy(first)).toBe(0)
  })

  test('its record is extended again at once if that was lost', async () => {
    const holder = places.reservationHolder
    shared.inner.sync.take([[takeOf(1, holder)]])
    places.keep(key, limit, holder, 60_000)
    store.fateOf = () => (scheduler.nowMs < LEASE_MS / 2 ? 'lost' : 'done')
    await scheduler.advance(2 * LEASE_MS)
    expect(takenBy(holder)).toBe(1)
  })

  test('its record is kept no longer than it may last, by the last of several', async () => {
    const holder = places.reservationHolder
    places.keep(key, limit, holder, 20_000)
    const stop = places.keep(key, limit, holder, 40_000)
    places.keep(key, limit, holder, 30_000)
    shared.inner.sync.take([[takeOf(1, holder)]])
    stop()
    await scheduler.advance(39_000)
    expect(takenBy(holder)).toBe(1)
    await scheduler.advance(LEASE_MS + 1000)
    expect(takenBy(holder)).toBe(0)
    expect(scheduler.waiting).toBe(0)
  })
})

describe('close', () => {
  test('gives back all places, and then nothing more', async () => {
    await take(2)
    const closed = places.close()
    await scheduler.advance(1100)
    await closed
    expect(taken()).toBe(0)
    places.give(key, 1)
    await places.close()
    expect(store.gives).toEqual([])
    await scheduler.advance(10 * LEASE_MS)
    expect(scheduler.waiting).toBe(0)
  })

  test('ends although the store does not answer', async () => {
    await take(2)
    next('lost')
    const closed = places.close()
    await scheduler.advance(1100)
    await closed
    await settled()
  })
})
