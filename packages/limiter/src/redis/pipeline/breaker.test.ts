import { expect, test } from 'vitest'
import { Breaker } from './breaker.js'

function make(random = 0) {
  const time = { ms: 0 }
  return {
    time,
    breaker: new Breaker(
      () => time.ms,
      () => random,
    ),
  }
}

/** Failures 20 ms apart, so that each counts. */
function failTimes({ breaker, time }: ReturnType<typeof make>, times: number): boolean[] {
  return Array.from({ length: times }, () => {
    time.ms += 20
    return breaker.fail()
  })
}

test('the breaker opens at the fifth consecutive failure and reports that once', () => {
  const made = make()
  const { breaker } = made
  expect(failTimes(made, 6)).toEqual([false, false, false, false, true, false])
  expect([breaker.isOpen, breaker.opened]).toEqual([true, 1])
})

test('failures at the same moment count as one', () => {
  const { breaker, time } = make()
  for (let i = 0; i < 100; i++) breaker.fail()
  time.ms = 19
  for (let i = 0; i < 100; i++) breaker.fail()
  expect(breaker.isOpen).toBe(false)
  for (time.ms = 20; time.ms < 80; time.ms++) expect(breaker.fail()).toBe(false)
  expect(breaker.fail()).toBe(true)
})

test('a success resets the count of failures', () => {
  const made = make()
  failTimes(made, 4)
  made.breaker.succeed()
  expect(failTimes(made, 4)).toEqual([false, false, false, false])
})

test('the breaker stays open for a second plus up to 200 random milliseconds', () => {
  const early = make(0)
  const late = make(0.999)
  failTimes(early, 5)
  failTimes(late, 5)
  expect(early.breaker.probeInMs()).toBe(1000)
  expect(late.breaker.probeInMs()).toBeGreaterThan(1190)
  expect(late.breaker.probeInMs()).toBeLessThan(1200)
})

test('probes are sent at intervals', () => {
  const made = make(0.5)
  const { breaker, time } = made
  failTimes(made, 5)
  time.ms += 1100
  expect(breaker.probeInMs()).toBe(0)
  breaker.onProbe()
  expect(breaker.probeInMs()).toBe(300)
})

test('a closed breaker needs five failures to open again', () => {
  const made = make()
  const { breaker } = made
  failTimes(made, 5)
  breaker.close()
  expect(breaker.isOpen).toBe(false)
  expect(failTimes(made, 5).at(-1)).toBe(true)
  expect(breaker.opened).toBe(2)
})
