import { expect, test } from 'vitest'
import { createThrottle } from './throttle.js'

function setUp() {
  let now = Date.UTC(2026, 0, 1)
  const throttle = createThrottle({ now: () => now })
  return { throttle, advance: (ms: number) => void (now += ms) }
}

test('each kind passes once a second, with the number of suppressed lines', () => {
  const { throttle, advance } = setUp()
  expect(throttle.pass('a')).toEqual({ suppressed: 0 })
  expect(throttle.pass('a')).toBeUndefined()
  expect(throttle.pass('a')).toBeUndefined()
  expect(throttle.pass('b')).toEqual({ suppressed: 0 })
  advance(999)
  expect(throttle.pass('a')).toBeUndefined()
  advance(1)
  expect(throttle.pass('a')).toEqual({ suppressed: 3 })
})

test('a clock that is set back suppresses nothing for longer than a second', () => {
  const { throttle, advance } = setUp()
  throttle.pass('a')
  advance(-3_600_000)
  expect(throttle.pass('a')).toEqual({ suppressed: 0 })
})

test('at most 64 kinds are tracked, and each is forgotten when its second is over', () => {
  const { throttle, advance } = setUp()
  for (let i = 0; i < 64; i++) expect(throttle.pass(`k${i}`)).toEqual({ suppressed: 0 })
  expect(throttle.pass('one more')).toBeUndefined()
  advance(1000)
  expect(throttle.pass('one more')).toEqual({ suppressed: 0 })
})
