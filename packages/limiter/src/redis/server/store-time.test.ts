import { expect, test } from 'vitest'
import { systemClock } from '../../clock.js'
import { StoreClock } from './store-clock.js'
import { StoreTime } from './store-time.js'

const AHEAD_US = 1_760_000_000_000_000

/** Clocks of nodes that answer after 2 ms, each this far ahead of the first. */
function start(...aheadUs: readonly (number | undefined)[]) {
  let nowMs = 0
  const clocks = aheadUs.map(() => ({ clock: new StoreClock(() => nowMs) }))
  const tell = (node: number, us: number) => {
    nowMs += 2
    clocks[node]?.clock.learn(nowMs - 2, nowMs, AHEAD_US + us + nowMs * 1000 - 1000)
  }
  for (const [node, us] of aheadUs.entries()) if (us !== undefined) tell(node, us)
  const time = new StoreTime({ clocks: () => clocks, clock: undefined })
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { time, clocks, tell, pass, trueUs: () => AHEAD_US + nowMs * 1000 }
}

test('before a node has sent its time it is the wall clock, with infinite uncertainty', () => {
  const { time } = start(undefined, undefined)
  expect(Math.abs(time.now() - systemClock.now())).toBeLessThan(60_000_000)
  expect([time.latest(), time.uncertaintyUs()]).toEqual([Infinity, Infinity])
  const none = new StoreTime({ clocks: () => [], clock: undefined })
  expect(none.uncertaintyUs()).toBe(Infinity)
})

test('it is the time of the first known node', () => {
  const { time, trueUs } = start(undefined, 0)
  expect(time.now()).toBe(trueUs())
  expect(time.uncertaintyUs()).toBe(1001)
  expect(time.latest()).toBe(trueUs() + 1000)
})

test('the uncertainty covers all nodes', () => {
  const { time, clocks, trueUs } = start(0, 300_000, -40_000)
  expect(time.now()).toBe(trueUs())
  expect(time.uncertaintyUs()).toBe(300_000 + (clocks[1]?.clock.uncertaintyUs() ?? 0))
  expect(time.latest()).toBe(trueUs() + 300_000 + 1000)
})

test('after a reconnect it continues from the last known clock until a node sends its time', () => {
  const { time, clocks, tell, pass, trueUs } = start(5_000_000)
  clocks[0]?.clock.forget()
  pass(1000)
  expect(time.now()).toBe(trueUs() + 5_000_000)
  expect(time.uncertaintyUs()).toBe(1000 + 501)
  expect(time.latest()).toBe(Infinity)
  tell(0, 7_000_000)
  expect(time.now()).toBe(trueUs() + 7_000_000)
  expect(time.uncertaintyUs()).toBe(1001)
})

test('an unknown clock is not used while another is known', () => {
  const { time, clocks, trueUs } = start(9_000_000, 0)
  clocks[0]?.clock.forget()
  expect(time.now()).toBe(trueUs())
  expect(time.uncertaintyUs()).toBe(1001)
})

test('a given clock is the time, without uncertainty', () => {
  const { clocks } = start(0)
  const time = new StoreTime({ clocks: () => clocks, clock: { now: () => 77 } })
  expect([time.now(), time.latest(), time.uncertaintyUs()]).toEqual([77, 77, 0])
})
