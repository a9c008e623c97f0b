import { defineBlock, defineLimit, type Limit, type Outcome, type Take } from '@sluice/core'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Answer } from '../../store.js'
import { markOf } from './hold-marks.js'
import { Slots } from './slots.test-helper.js'

const YEAR_MS = 366 * 86_400_000
const window = (max: number, onRefusal?: 'charge') =>
  defineLimit({ algorithm: 'fixed-window', max, windowMs: YEAR_MS, onRefusal })

function take(n: number, limit: Limit, amount = 1): Take {
  return { key: { hi: n, lo: n, partition: n }, limit, amount }
}

const allowed = (answers: readonly (readonly Answer[])[] | undefined) =>
  answers?.[0]?.every((answer) => typeof answer === 'object' && answer.retryAfterMs === 0)
const outcome = (answer: Answer | undefined) => answer as Outcome & { readonly held?: boolean }

let slots: Slots
beforeEach(() => {
  vi.useFakeTimers()
  slots = new Slots()
})
afterEach(() => {
  vi.useRealTimers()
})

describe('a call in several slots', () => {
  const users = take(1, window(2))
  const addresses = take(2, window(1))

  test('needs one round trip and leaves no mark if all slots have room', async () => {
    const slotCall = slots.start([[users, addresses]])
    await slots.run()
    expect(slotCall.answers).toBeUndefined()
    await slots.run()
    expect(allowed(slotCall.answers)).toBe(true)
    expect(slots.attempts).toBe(1)
    await slots.runAll()
    const next = slots.start([[users, addresses]])
    await slots.runAll()
    expect(outcome(next.answers?.[0]?.[1]).retryAfterMs).toBeGreaterThan(1000)
  })

  test('needs one round trip and is charged nowhere if one slot finally refuses', async () => {
    slots.store.sync.take([[addresses]])
    const slotCall = slots.start([[users, addresses]])
    await slots.runAll()
    expect(slots.attempts).toBe(1)
    const [row] = slotCall.answers ?? []
    expect([outcome(row?.[0]).granted, outcome(row?.[0]).remaining]).toEqual([0, 2])
    expect(outcome(row?.[1]).retryAfterMs).toBeGreaterThan(1000)
    expect(outcome(row?.[1]).held).toBeUndefined()
    expect(slots.remaining(users)).toBe(2)
    expect(slots.heldRefusals).toBe(0)
  })

  test('keeps what a limit charges for a refusal', async () => {
    const charging = take(1, window(5, 'charge'))
    slots.store.sync.take([[addresses]])
    slots.start([[charging, addresses]])
    await slots.runAll()
    expect(slots.remaining(charging)).toBe(4)
  })

  test('keeps what an overdraw took, and what it owes', async () => {
    const limit = defineLimit({ algorithm: 'fixed-window', max: 5, windowMs: YEAR_MS, debt: 3 })
    const fitting = { ...take(1, limit, 4), overdraw: true }
    const exceeding = { ...take(3, limit, 7), overdraw: true }
    slots.store.sync.take([[addresses]])
    const slotCall = slots.start([[fitting, addresses, exceeding]])
    await slots.runAll()
    expect(slotCall.answers?.[0]?.map((answer) => outcome(answer).granted)).toEqual([4, 0, 7])
    expect([slots.remaining(fitting), slots.remaining(exceeding)]).toEqual([1, 0])
    slots.store.sync.give({ key: exceeding.key, limit, amount: 1 })
    expect(slots.remaining(exceeding)).toBe(0)
  })

  test('lends an overdraw no more than its debt, although a waiting call may borrow more', async () => {
    const bucket = { algorithm: 'token-bucket', max: 2, windowMs: 1000, waitMs: 60_000 } as const
    const lending = { ...take(1, defineLimit({ ...bucket, debt: 3 }), 10), overdraw: true }
    const twin = { ...lending, key: take(3, window(1)).key }
    slots.store.sync.take([[addresses]])
    slots.start([[lending, addresses]])
    await slots.runAll()
    slots.store.sync.take([[twin, addresses]])
    const [[there, here] = []] = slots.store.sync.peek([[twin, lending]])
    expect(here).toEqual(there)
  })

  test('gives nothing back where another slot refuses, and all where none does', async () => {
    slots.store.sync.take([[users]])
    slots.store.sync.take([[addresses]])
    const back = take(3, window(5), -2)
    slots.store.sync.take([[take(3, window(5), 4)]])
    const refused = slots.start([[users, addresses, back]])
    await slots.runAll()
    expect(refused.answers?.[0]?.map((answer) => outcome(answer).granted)).toEqual([0, 0, 0])
    expect(slots.remaining(back)).toBe(1)
    const passed = slots.start([[users, back]])
    await slots.runAll()
    expect(passed.answers?.[0]?.map((answer) => outcome(answer).granted)).toEqual([1, -2])
    expect(slots.remaining(back)).toBe(3)
  })

  test('sends what gives back in groups of its own as soon as the first group has passed', async () => {
    slots.store.sync.take([[take(3, window(5), 4), take(4, window(5), 4)]])
    const [first, second] = [take(3, window(5), -2), take(4, window(5), -3)]
    const slotCall = slots.start([[addresses], [first], [second]])
    await slots.run()
    expect(slots.remaining(first)).toBe(1)
    expect(slots.underWay).toHaveLength(2)
    await slots.runAll()
    expect(slotCall.answers?.map(([answer]) => outcome(answer).granted)).toEqual([1, -2, -3])
  })

  test('is charged down to empty for a refusal, although a waiting call may borrow more', async () => {
    const lending = defineLimit({
      algorithm: 'token-bucket',
      max: 2,
      windowMs: 1000,
      waitMs: 60_000,
      onRefusal: 'charge',
    })
    const bucket = take(1, lending, 10)
    const twin = take(3, lending, 10)
    slots.store.sync.take([[addresses]])
    const slotCall = slots.start([[bucket, addresses]])
    await slots.runAll()
    // What a single script does with a call that it refuses as a whole.
    slots.store.sync.take([[twin, addresses]])
    const [[there, here] = []] = slots.store.sync.peek([[twin, bucket]])
    expect(here).toEqual(there)
    expect(outcome(slotCall.answers?.[0]?.[0]).delayMs).toBe(0)
  })

  test('gives back nothing itself and passes on late answers if a slot is silent', async () => {
    const slotCall = slots.start([[users, addresses]])
    await slots.run()
    slotCall.call.expire()
    expect(outcome(slotCall.answers?.[0]?.[0]).granted).toBe(1)
    expect(slotCall.answers?.[0]?.[1]).toBe('unknown')
    expect(slots.remaining(users)).toBe(1)
    await slots.run()
    expect(slotCall.late?.[0]?.map((answer) => outcome(answer).granted)).toEqual([1, 1])
  })

  test('removes its own marks once, and no others, if a slot was late', async () => {
    const slotCall = slots.start([[users, addresses]])
    await slots.run()
    slotCall.call.expire()
    const holder = slots.start([[users, take(3, window(1))]])
    // The holder has the last unit of the user, and its other slot has not answered.
    await slots.run(1)
    await vi.advanceTimersByTimeAsync(1)
    await slots.run(0)
    while (slots.underWay.length > 1) await slots.run(1)
    const other = slots.start([[users]], 50)
    while (slots.underWay.length > 1) await slots.run(1)
    expect(holder.answers).toBeUndefined()
    slots.nowMs += 50
    other.call.expire()
    expect(outcome(other.answers?.[0]?.[0])).toMatchObject({ retryAfterMs: 50, held: true })
  })
})

describe('a refusal by units that another call holds', () => {
  const users = take(1, window(1))
  const addresses = take(2, window(1))

  /** A call that holds the user's only unit and is about to be refused by its address. */
  async function hold() {
    slots.store.sync.take([[addresses]])
    const holder = slots.start([[users, addresses]])
    await slots.run()
    return holder
  }

  test('leads to a retry that admits the call when the units are given back', async () => {
    await hold()
    const other = slots.start([[users, take(3, window(1))]])
    // Both operations, while the other call still holds the unit.
    await slots.run(1)
    await slots.run(1)
    expect(other.answers).toBeUndefined()
    for (let ms = 0; ms < 10 && other.answers === undefined; ms++) {
      await slots.runAll()
      slots.nowMs += 1
      await vi.advanceTimersByTimeAsync(1)
    }
    expect(allowed(other.answers)).toBe(true)
    expect(slots.remaining(users)).toBe(0)
  })

  test('leads to a retry also if the call has only that limit', async () => {
    const holder = await hold()
    const other = slots.start([[users]])
    await slots.run(1)
    await slots.run(1)
    expect(other.answers).toBeUndefined()
    await slots.runAll()
    expect(allowed(holder.answers)).toBe(false)
    slots.nowMs += 1
    await vi.advanceTimersByTimeAsync(1)
    await slots.runAll()
    expect(allowed(other.answers)).toBe(true)
  })

  test('asks to wait no longer than a call may hold units if the deadline comes first', async () => {
    await hold()
    const other = slots.start([[users]], 50)
    await slots.run(1)
    await slots.run(1)
    slots.nowMs += 50
    other.call.expire()
    expect(outcome(other.answers?.[0]?.[0])).toMatchObject({ retryAfterMs: 50, held: true })
    expect(slots.heldRefusals).toBe(1)
  })

  test('charges a limit that charges for refusals once, without a retry', async () => {
    const charging = take(1, window(1, 'charge'))
    slots.store.sync.take([[addresses]])
    slots.start([[charging, addresses]])
    await slots.run()
    const other = slots.start([[take(1, window(1, 'charge'))]], 50)
    await slots.run(1)
    await slots.run(1)
    expect(outcome(other.answers?.[0]?.[0])).toMatchObject({ retryAfterMs: 50, held: true })
    expect(slots.attempts).toBe(3)
  })

  test('stands if the retry is silent, and units that it takes late are given back', async () => {
    await hold()
    const other = slots.start([[users]], 50)
    await slots.run(1)
    const look = slots.underWay.pop()
    slots.nowMs += 50
    other.call.expire()
    expect(outcome(other.answers?.[0]?.[0])).toMatchObject({ retryAfterMs: 50, held: true })
    await slots.runAll()
    expect(slots.remaining(users)).toBe(1)
    look?.()
    await slots.runAll()
    expect(slots.remaining(users)).toBe(1)
    expect(other.late).toBeUndefined()
  })
})

describe('the block of a limit', () => {
  const HOUR_MS = 3_600_000
  const spec = { firstMs: HOUR_MS, factor: 1, maxMs: HOUR_MS, forgetMs: HOUR_MS }
  const users = take(1, window(1))
  const block: Take = {
    key: { hi: 9, lo: 9, partition: 1 },
    limit: defineBlock('block', spec),
    amount: 1,
  }
  const addresses = take(2, window(1))
  const teams = take(3, window(9))

  /** A call that holds the user's only unit; its address has answered nothing yet. */
  async function hold() {
    const holder = slots.start([[users, block, addresses]])
    await slots.run()
    return holder
  }

  /** Runs what is under way, except the answer that the holder waits for. */
  async function runOthers() {
    while (slots.underWay.length > 1) await slots.run(1)
  }

  async function playUntil(slotCall: { answers: unknown }) {
    for (let ms = 0; ms < 100 && slotCall.answers === undefined; ms++) {
      await slots.runAll()
      slots.nowMs += 1
      await vi.advanceTimersByTimeAsync(1)
    }
    await slots.runAll()
  }

  const waitOfBlock = () => slots.store.sync.peek([[block]])[0]?.[0]?.retryAfterMs

  const calls = [
    ['a call in one slot', [users, block]],
    ['a call in several slots', [users, block, teams]],
  ] as const

  test.each(calls)('does not begin when held units refuse %s', async (_, takes) => {
    slots.store.sync.take([[addresses]])
    const holder = await hold()
    const other = slots.start([takes])
    await runOthers()
    expect(waitOfBlock()).toBe(0)
    await playUntil(other)
    expect(allowed(holder.answers)).toBe(false)
    expect(allowed(other.answers)).toBe(true)
    expect(waitOfBlock()).toBe(0)
  })

  test.each(calls)(
    'does not begin when units are held until the deadline of %s',
    async (_, takes) => {
      await hold()
      const other = slots.start([takes], 50)
      await runOthers()
      slots.nowMs += 50
      other.call.expire()
      await runOthers()
      expect(outcome(other.answers?.[0]?.[0])).toMatchObject({ retryAfterMs: 50, held: true })
      expect(outcome(other.answers?.[0]?.[1]).retryAfterMs).toBe(0)
      expect(slots.heldRefusals).toBe(1)
      expect(waitOfBlock()).toBe(0)
    },
  )

  test.each(calls)('begins when the units that refused %s are used', async (_, takes) => {
    const holder = await hold()
    const other = slots.start([takes])
    await runOthers()
    expect(waitOfBlock()).toBe(0)
    await playUntil(other)
    expect(allowed(holder.answers)).toBe(true)
    expect(outcome(other.answers?.[0]?.[1])).toMatchObject({ retryAfterMs: HOUR_MS })
    expect(outcome(other.answers?.[0]?.[1]).held).toBeUndefined()
    expect(waitOfBlock()).toBe(HOUR_MS)
    expect(slots.remaining(teams)).toBe(9)
  })

  test.each(calls)('begins at once when used units refuse %s', async (_, takes) => {
    slots.store.sync.take([[users]])
    const other = slots.start([takes])
    await slots.runAll()
    expect(slots.attempts).toBe(1)
    // The window is longer than the block, and its wait stays.
    expect(outcome(other.answers?.[0]?.[0]).retryAfterMs).toBeGreaterThan(HOUR_MS)
    expect(outcome(other.answers?.[0]?.[0]).held).toBeUndefined()
    expect(outcome(other.answers?.[0]?.[1])).toMatchObject({ retryAfterMs: HOUR_MS })
    expect(waitOfBlock()).toBe(HOUR_MS)
  })

  test('refuses for its own time while another call is under way', async () => {
    slots.store.sync.take([[users, block]])
    slots.store.sync.take([[users, block]])
    slots.start([[users, block, addresses]])
    const other = slots.start([[users, block, teams]])
    await slots.runAll()
    expect(slots.attempts).toBe(2)
    expect(outcome(other.answers?.[0]?.[1])).toMatchObject({ retryAfterMs: HOUR_MS })
    expect(outcome(other.answers?.[0]?.[1]).held).toBeUndefined()
  })
})

describe('a shadow group in another slot', () => {
  const addresses = take(2, window(1))

  test('gets its units back if the enforced group refuses', async () => {
    const shadow = take(1, window(5))
    slots.store.sync.take([[addresses]])
    slots.start([[addresses], [shadow]])
    await slots.runAll()
    expect(slots.remaining(shadow)).toBe(5)
  })

  test('takes at once if it charges for refusals and no limit is enforced', async () => {
    const charging = [1, 2].map((n) => [take(n, window(5, 'charge'))])
    const slotCall = slots.start([[], ...charging])
    await slots.runAll()
    expect(slots.attempts).toBe(1)
    expect(slotCall.answers?.flat().map((answer) => outcome(answer).granted)).toEqual([1, 1])
  })

  test('pays for refusals only of calls that pass', async () => {
    const shadow = take(1, window(5, 'charge'), 3)
    const counts: number[] = []
    for (let n = 0; n < 3; n++) {
      const slotCall = slots.start([[take(2, window(2))], [shadow]])
      await slots.runAll()
      expect(slotCall.answers?.[1]).toHaveLength(1)
      counts.push(slots.remaining(shadow))
    }
    expect(counts).toEqual([2, 0, 0])
    slots.store.sync.reset(shadow.key)
    slots.start([[take(2, window(2))], [shadow]])
    await slots.runAll()
    expect(slots.remaining(shadow)).toBe(5)
  })
})

test('a limit keeps its own wait if another limit will never admit the call', async () => {
  const charging = take(1, window(5, 'charge'), 3)
  slots.store.sync.take([[charging]])
  const slotCall = slots.start([
    [charging, { ...take(4, window(2), 3), key: { hi: 4, lo: 4, partition: 1 } }],
  ])
  await slots.runAll()
  const [row] = slotCall.answers ?? []
  expect(outcome(row?.[1]).retryAfterMs).toBeNull()
  expect(outcome(row?.[0]).retryAfterMs).toBeGreaterThan(1000)
})

describe('marks left by a node that died', () => {
  const users = take(1, window(1))
  const other = (n: number) => take(n, window(1))

  /** A mark that is never removed, at a counter that is full. */
  function leaveMark() {
    const { key } = users
    slots.store.sync.take([[users], [markOf(key, 1)]])
  }

  /** Advances time until the call is answered; returns the number of attempts meanwhile. */
  async function play(slotCall: { answers: unknown }): Promise<number> {
    const before = slots.attempts
    for (let ms = 0; ms < 200 && slotCall.answers === undefined; ms++) {
      await slots.runAll()
      slots.nowMs += 1
      await vi.advanceTimersByTimeAsync(1)
    }
    return slots.attempts - before
  }

  test('make one call try until its deadline, and the next ones once', async () => {
    leaveMark()
    const first = slots.start([[users, other(2)]], 50)
    expect(1 + (await play(first))).toBeGreaterThan(3)
    const attempts: number[] = []
    for (let n = 3; n < 8; n++) {
      const before = slots.attempts
      const next = slots.start([[users, other(n)]], 50)
      await play(next)
      attempts.push(slots.attempts - before)
      expect(outcome(next.answers?.[0]?.[0]).held).toBe(true)
      expect(outcome(next.answers?.[0]?.[0]).retryAfterMs).toBeLessThanOrEqual(50)
    }
    expect(attempts.filter((each) => each === 1).length).toBeGreaterThanOrEqual(3)
    expect(slots.remaining(other(7))).toBe(1)
  })
})
