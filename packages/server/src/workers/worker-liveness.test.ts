import { expect, test } from 'vitest'
import { HEARTBEAT_MS, Liveness } from './worker-liveness.js'

function serving(...names: readonly string[]): Liveness<string> {
  const liveness = new Liveness<string>({ silentChecksMax: 3 })
  for (const name of names) {
    liveness.watch(name)
    liveness.markServing(name)
  }
  return liveness
}

const checks = (liveness: Liveness<string>, count: number) =>
  Array.from({ length: count }, () => liveness.check()).flat()

test('a worker that misses more checks than allowed is reported as hung, once', () => {
  const liveness = serving('a', 'b')
  const found = Array.from({ length: 6 }, () => {
    liveness.recordHeartbeat('b')
    return liveness.check().map(({ worker }) => worker)
  })
  expect(found).toEqual([[], [], [], ['a'], [], []])
})

test('the silence of a worker is reported in multiples of the check interval', () => {
  expect(checks(serving('a'), 4)).toEqual([{ worker: 'a', silentMs: 3 * HEARTBEAT_MS }])
})

test('any message of a worker resets its silence', () => {
  const liveness = serving('a')
  expect(checks(liveness, 3)).toEqual([])
  liveness.recordHeartbeat('a')
  expect(checks(liveness, 3)).toEqual([])
  expect(checks(liveness, 1)).toHaveLength(1)
})

test('a starting worker may be silent for longer than a serving one', () => {
  const liveness = new Liveness<string>({ silentChecksMax: 3 })
  liveness.watch('a')
  expect(checks(liveness, 120)).toEqual([])
  expect(liveness.isServing('a')).toBe(false)
  expect(checks(liveness, 1)).toHaveLength(1)
})

test('a worker that has exited is never reported', () => {
  const liveness = serving('a')
  liveness.unwatch('a')
  liveness.recordHeartbeat('a')
  expect(checks(liveness, 200)).toEqual([])
})

test('a primary process that stood still reports no worker: only its own checks count', () => {
  const liveness = serving('a')
  // An hour in which neither of the two ran is one late check.
  expect(checks(liveness, 1)).toEqual([])
  liveness.recordHeartbeat('a')
  expect(checks(liveness, 3)).toEqual([])
})
