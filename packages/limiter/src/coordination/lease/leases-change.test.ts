import { describe, expect, test } from 'vitest'
import { settled } from '../../scripted-store.test-helper.js'
import {
  takeAndWait,
  costing,
  outcomeOf,
  isBalanced,
  LeasingNode,
  unansweredOf,
  takeOf,
} from './leases.test-helper.js'

const window = (max: number) => ({ algorithm: 'fixed-window', max, window: '1h' })
const perHour = takeOf(window(1000))
/** The same limit of the same counter, compiled again. */
const perHourAnew = takeOf(window(1000))

const ONE_GRANTED = {
  granted: 1,
  remaining: 9,
  resetAfterMs: 1,
  retryAfterMs: 0,
  delayMs: 0,
  at: 1,
}

/** A node that has spent ten units by decision of the store, and drawn eleven. */
async function leased() {
  const node = new LeasingNode()
  node.spendByStore(perHour, 10)
  const first = outcomeOf(await takeAndWait(node, perHour))
  return { node, first }
}

/** The same, with the draw still unanswered. */
function drawing(calls = 1) {
  const node = new LeasingNode()
  node.spendByStore(perHour, 10)
  node.store.isHeld = true
  const waiting = Array.from({ length: calls }, () => takeAndWait(node, perHour))
  return { node, waiting: Promise.all(waiting) }
}

describe('units put back', () => {
  test('a unit that is put back can be spent again from the same lease', async () => {
    const { node } = await leased()
    const outcome = outcomeOf(node.take(costing(perHour, 10)))
    node.leases.putBack(costing(perHour, 10), outcome)
    expect(node.stats).toMatchObject({ spent: 1, held: 10 })
    expect(outcomeOf(node.take(costing(perHour, 10)))).toMatchObject(outcome)
    expect(node.given()).toEqual([])
  })

  test('a unit that is put back after the end of its lease goes to the store, under the time of its draw', async () => {
    const { node, first } = await leased()
    node.freeze(2000)
    node.leases.putBack(perHour, first)
    await settled()
    expect(node.store.gives).toMatchObject([{ amount: 1, at: first.at }])
    expect(node.stats).toMatchObject({ spent: 0, givenBack: 1, held: 10 })
  })

  test('a unit that is put back after its lease was given back goes to the store as well', async () => {
    const { node, first } = await leased()
    await node.pass(600)
    node.leases.putBack(perHour, first)
    await settled()
    expect(node.given()).toEqual([10, 1])
    expect(node.used(perHour)).toBe(10)
  })

  test('a unit that is put back after another draw goes to the store, not into the newer lease', async () => {
    const { node, first } = await leased()
    await node.pass(5)
    const large = outcomeOf(await takeAndWait(node, costing(perHour, 20)))
    expect(large.at).toBe(first.at + 5000)
    const rest = outcomeOf(node.take(costing(perHour, 10)))
    expect(rest.at).toBe(first.at)
    await takeAndWait(node, costing(perHour, 20))
    node.leases.putBack(costing(perHour, 10), rest)
    await settled()
    expect(node.store.gives).toMatchObject([{ amount: 10, at: first.at }])
    expect(isBalanced(node.stats)).toBe(true)
  })

  test('a unit that is put back beyond what this node may hold goes to the store', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 100)
    const first = outcomeOf(await takeAndWait(node, perHour))
    expect(node.stats.held).toBe(50)
    node.leases.putBack(perHour, first)
    expect(node.given()).toEqual([1])
    await settled()
    expect(node.stats).toMatchObject({ held: 50, givenBack: 1, spent: 0 })
  })

  test('a unit that is put back does not count as spent, so that no more is drawn for it', async () => {
    const { node, first } = await leased()
    node.leases.putBack(perHour, first)
    await node.take(costing(perHour, 20))
    // Ten units were spent by decision of the store, and eleven are held or being returned.
    expect(node.draws()[1]?.amount).toBe(20)
  })

  test('putting back a refusal, or an outcome of another decider, does nothing', async () => {
    const { node, first } = await leased()
    node.leases.putBack(perHour, { ...first })
    expect(node.stats).toMatchObject({ spent: 1, held: 10 })
  })
})

describe('leases of several draws', () => {
  test('units of two draws stay separate: each is spent and given back by its own time and expiry', async () => {
    const { node, first } = await leased()
    await node.pass(400)
    outcomeOf(node.take(perHour))
    const second = outcomeOf(await takeAndWait(node, costing(perHour, 20)))
    // Nine are left of the first draw; the second brought three beyond the call's own.
    expect(node.stats).toMatchObject({ held: 12 })
    expect(outcomeOf(node.take(perHour)).at).toBe(first.at)
    await node.pass(400)
    outcomeOf(node.take(perHour))
    await node.pass(400)
    outcomeOf(node.take(perHour))
    await node.pass(400)
    outcomeOf(node.take(perHour))
    await node.pass(450)
    expect(node.store.gives).toMatchObject([{ amount: 5, at: first.at }])
    expect(outcomeOf(node.take(perHour)).at).toBe(second.at)
  })

  test('units of at most four draws are held: the oldest lease goes back', async () => {
    const { node } = await leased()
    for (let i = 0; i < 5; i++) {
      await node.pass(1)
      // More than any lease holds, and something is left of each draw.
      await takeAndWait(node, costing(perHour, 60))
      outcomeOf(node.take(perHour))
    }
    expect(node.given()).toEqual([7])
    expect(node.stats.counters).toBe(1)
    expect(isBalanced(node.stats)).toBe(true)
    expect(node.stats.held).toBeLessThanOrEqual(50)
  })
})

describe('late answers to draws', () => {
  async function late(afterMs = 25, { isLetPass = false } = {}) {
    const node = new LeasingNode()
    node.spendByStore(perHour, 100)
    node.store.all('ran')
    const draw = unansweredOf(await takeAndWait(node, perHour))
    if (isLetPass) draw.onAdmitted()
    node.store.all('answer')
    node.freeze(afterMs)
    return node
  }

  test('a late grant is a lease that counts from its sending, of no more than may be held', async () => {
    const node = await late()
    node.store.comeLate()
    await settled()
    expect(node.stats).toMatchObject({ drawn: 51, held: 50, givenBack: 1, spent: 0 })
    expect(outcomeOf(node.take(perHour))).toMatchObject({ granted: 1, staleMs: 25 })
    node.freeze(1975)
    expect(node.take(perHour)).toBeInstanceOf(Promise)
  })

  test('a late grant is returned if its lease has expired', async () => {
    const node = await late(2000)
    node.store.comeLate()
    await settled()
    expect(node.stats).toMatchObject({ drawn: 51, held: 0, givenBack: 51, spent: 0 })
    expect(node.used(perHour)).toBe(100)
  })

  test('a late grant spends the units of a call that was admitted meanwhile', async () => {
    const node = await late(25, { isLetPass: true })
    node.store.comeLate()
    await settled()
    expect(node.stats).toMatchObject({ drawn: 51, held: 50, givenBack: 0, spent: 1 })
    await node.leases.close()
    expect(node.used(perHour)).toBe(101)
  })

  test('a late grant does not return admitted units, even if its lease has expired or another limit is active', async () => {
    for (const afterMs of [2000, 25]) {
      const node = await late(afterMs, { isLetPass: true })
      if (afterMs < 2000) void node.take(takeOf(window(500)))
      await settled()
      node.store.comeLate()
      await settled()
      expect(node.given()).toEqual([50])
    }
  })

  test('a late grant of less than was admitted is spent whole', async () => {
    const take = takeOf(window(100))
    const node = new LeasingNode()
    node.spendByStore(take, 97)
    node.store.all('ran')
    const calls = await Promise.all([1, 4].map((cost) => takeAndWait(node, costing(take, cost))))
    for (const call of calls) unansweredOf(call).onAdmitted()
    node.store.comeLate()
    expect(node.stats).toMatchObject({ drawn: 3, held: 0, spent: 3, givenBack: 0 })
  })

  test('a late grant is returned if as much was drawn since', async () => {
    const node = await late()
    expect(await node.take(perHour)).toMatchObject({ granted: 1 })
    node.store.comeLate()
    await settled()
    expect(node.stats).toMatchObject({ drawn: 102, held: 50, givenBack: 51, spent: 1 })
  })

  test('a late grant is dropped if the counter was reset since', async () => {
    const node = await late()
    node.leases.forget(perHour.key)
    node.store.comeLate()
    await settled()
    expect(node.given()).toEqual([])
    expect(node.stats).toMatchObject({ drawn: 51, held: 0, lost: 51 })
  })

  test('a late grant is returned if the counter is leased by another limit since', async () => {
    const node = await late()
    void node.take(takeOf(window(500)))
    await settled()
    node.store.comeLate()
    await settled()
    expect(node.stats).toMatchObject({ drawn: 51 + 26, givenBack: 51, spent: 1, held: 25 })
  })

  test.each([
    ['goes back', false],
    ['is dropped, if any was reset', true],
  ])('a late grant to a dropped counter %s', async (_, isReset) => {
    const node = await late()
    for (let i = 0; i <= 100_000; i++) {
      const key = { hi: i, lo: i, partition: 0 }
      node.leases.learn({ ...perHour, key }, ONE_GRANTED)
    }
    expect(node.take(perHour)).toBeUndefined()
    if (isReset) node.leases.forget(perHour.key)
    node.store.comeLate()
    await settled()
    expect(node.given()).toEqual(isReset ? [] : [51])
    expect(node.stats).toMatchObject({ drawn: 51, held: 0, counters: 0 })
  })

  test('a late answer counts once, also if it comes before the draw is settled as unanswered', async () => {
    const { node, waiting } = drawing()
    node.store.all('ran')
    const { options } = node.store.requests[0] ?? {}
    const outcome = { granted: 8, remaining: 5, resetAfterMs: 1, retryAfterMs: 0, delayMs: 0 }
    const at = node.store.clock.now()
    options?.onLate?.([[{ ...outcome, at }]])
    expect(node.stats.drawn).toBe(0)
    node.store.release()
    const [draw] = await waiting
    options?.onLate?.([[{ ...outcome, at }]])
    expect(node.stats).toMatchObject({ drawn: 8, held: 8 })
    // It is already a lease when the call that waited for it is admitted.
    unansweredOf(draw).onAdmitted()
    expect(node.stats).toMatchObject({ drawn: 8, held: 7, spent: 1 })
  })

  test('a late answer that granted nothing changes nothing', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 100)
    node.store.all('lost')
    await node.take(perHour)
    node.store.comeLate()
    expect(node.stats).toMatchObject({ draws: 1, drawn: 0, held: 0, counters: 0 })
  })
})

describe('rule changes', () => {
  test('calls under other rules are not served from a lease of the old ones, which is returned when idle', async () => {
    const { node, first } = await leased()
    expect(node.take(perHourAnew)).toBeUndefined()
    await node.pass(450)
    expect(node.take(perHourAnew)).toBeUndefined()
    expect(node.given()).toEqual([])
    await node.pass(100)
    expect(node.store.gives).toMatchObject([{ amount: 10, at: first.at }])
    expect(node.stats).toMatchObject({ spent: 1, givenBack: 10, held: 0, counters: 0 })
    expect(await node.take(perHourAnew)).toMatchObject({ granted: 1 })
    expect(outcomeOf(node.take(perHourAnew))).toMatchObject({ granted: 1 })
    expect(node.take(perHour)).toBeUndefined()
  })

  test('calls that began under the old rules get what they drew', async () => {
    const { node, waiting } = drawing(3)
    // One draw at a time: until the old one is answered there is no other.
    expect(node.take(perHourAnew)).toBeUndefined()
    node.store.release()
    expect(await waiting).toMatchObject([{ granted: 1 }, { granted: 1 }, { granted: 1 }])
    expect(node.take(perHourAnew)).toBeUndefined()
    await node.pass(600)
    expect(node.stats).toMatchObject({ draws: 1, drawn: 11, spent: 3, givenBack: 8, held: 0 })
    expect(node.used(perHour)).toBe(13)
  })

  test('other limits of one caller leave the leases of all others alone', async () => {
    const { node } = await leased()
    const another = { ...perHour, key: takeOf(window(1000), { user: 'u2' }).key }
    node.spendByStore(another, 10)
    await node.take(another)
    expect(node.take({ ...perHourAnew, key: another.key })).toBeUndefined()
    expect(outcomeOf(node.take(perHour))).toMatchObject({ granted: 1 })
    expect(node.given()).toEqual([])
  })
})

describe('reset', () => {
  test('a reset drops what is held, and gives nothing back', async () => {
    const { node, first } = await leased()
    node.leases.forget(perHour.key)
    expect(node.stats).toMatchObject({ held: 0, lost: 10, counters: 0 })
    node.leases.putBack(perHour, first)
    await settled()
    expect(node.given()).toEqual([])
    expect(node.stats).toMatchObject({ drawn: 11, spent: 0, lost: 11 })
  })

  test('a reset drops what a running draw will grant, and the store decides who waited', async () => {
    const { node, waiting } = drawing(2)
    node.leases.forget(perHour.key)
    expect(await waiting).toEqual(['store', 'store'])
    node.store.release()
    await settled()
    expect(node.given()).toEqual([])
    expect(node.stats).toMatchObject({ drawn: 11, spent: 0, lost: 11, held: 0 })
  })

  test('a reset of a counter that this node does not know does nothing', async () => {
    const { node } = await leased()
    node.leases.forget(takeOf('9/hour', { user: 'u2' }).key)
    outcomeOf(node.take(perHour))
  })

  test('a reset ends the exhaustion of a counter', async () => {
    const node = new LeasingNode()
    node.spendByStore(perHour, 1000)
    await node.take(perHour)
    expect(outcomeOf(node.take(perHour)).granted).toBe(0)
    await node.store.reset(perHour.key)
    node.leases.forget(perHour.key)
    expect(await node.take(perHour)).toMatchObject({ granted: 1 })
  })
})

describe('close', () => {
  test('closing gives everything back, waits for that, and nothing is decided on this node any more', async () => {
    const { node } = await leased()
    await node.leases.close()
    expect(node.stats).toMatchObject({ spent: 1, givenBack: 10, held: 0 })
    expect(node.timers).toBe(0)
    expect(node.take(perHour)).toBeUndefined()
    node.leases.learn(takeOf('9/hour', { user: 'u2' }), 'not-run')
    await node.leases.close()
  })

  test('closing waits for a running draw, and gives it back', async () => {
    const { node, waiting } = drawing()
    let isClosed = false
    const closing = node.leases.close().then(() => {
      isClosed = true
    })
    expect(await waiting).toEqual(['store'])
    await settled()
    expect(isClosed).toBe(false)
    node.store.release()
    await closing
    expect(node.stats).toMatchObject({ drawn: 11, givenBack: 11, held: 0 })
    expect(node.timers).toBe(0)
  })

  test('closing ends even if the store does not answer', async () => {
    const { node } = await leased()
    node.store.script.verbError = new Error('gone')
    await node.leases.close()
    expect(node.stats).toMatchObject({ lost: 10, held: 0 })
  })

  test('a closed node learns nothing', async () => {
    const node = new LeasingNode()
    await node.leases.close()
    node.spendByStore(perHour, 10)
    expect(node.take(perHour)).toBeUndefined()
  })
})
