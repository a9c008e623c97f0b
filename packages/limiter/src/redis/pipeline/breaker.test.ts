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

/** Each 20 ms after the one before, so that none is taken for the same. */
function failTimes({ breaker, time }: ReturnType<typeof make>, times: number): boolean[] {
  return Array.from({ length: times }, () => {
    time.ms += 20
    return breaker.fail()
  })
}

test('it opens at the fifth failure in a row, and says so once', () => {
  const made = make()
  const { breaker } = made
  expect(failTimes(made, 6)).toEqual([false, false, false, false, true, false])
  expect([breaker.isOpen, breaker.opened]).toEqual([true, 1])
})

test('failures of one moment are one', () => {
  const { breaker, time } = make()
  for (let i = 0; i < 100; i++) breaker.fail()
  time.ms = 19
  for (let i = 0; i < 100; i++) breaker.fail()
  expect(breaker.isOpen).toBe(false)
  for (time.ms = 20; time.ms < 80; time.ms++) expect(breaker.fail()).toBe(false)
  expect(breaker.fail()).toBe(true)
})

test('a success in between begins the row anew', () => {
  const made = make()
  failTimes(made, 4)
  made.breaker.succeed()
  expect(failTimes(made, 4)).toEqual([false, false, false, false])
})

test('it stays open for a second at least, and by chance up to 200 ms more', () => {
  const early = make(0)
  const late = make(0.999)
  failTimes(early, 5)
  failTimes(late, 5)
  expect(early.breaker.probeInMs()).toBe(1000)
  expect(late.breaker.probeInMs()).toBeGreaterThan(1190)
  expect(late.breaker.probeInMs()).toBeLessThan(1200)
})

test('probes leave apart from each other', () => {
  const made = make(0.5)
  const { breaker, time } = made
  failTimes(made, 5)
  time.ms += 1100
  expect(breaker.probeInMs()).toBe(0)
  breaker.onProbe()
  expect(breaker.probeInMs()).toBe(300)
})

test('closed again, it takes five failures to open', () => {
  const made = make()
  const { breaker } = made
  failTimes(made, 5)
  breaker.close()
  expect(breaker.isOpen).toBe(false)
  expect(failTimes(made, 5).at(-1)).toBe(true)
  expect(breaker.opened).toBe(2)
})
