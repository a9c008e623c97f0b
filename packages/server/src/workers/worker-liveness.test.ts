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

test('a worker that misses more checks than it may is found to hang, once', () => {
  const liveness = serving('a', 'b')
  const found = Array.from({ length: 6 }, () => {
    liveness.recordHeartbeat('b')
    return liveness.check().map(({ worker }) => worker)
  })
  expect(found).toEqual([[], [], [], ['a'], [], []])
})

test('how long a worker was silent is told in the time between checks', () => {
  expect(checks(serving('a'), 4)).toEqual([{ worker: 'a', silentMs: 3 * HEARTBEAT_MS }])
})

test('any message of a worker gives it all of the time again', () => {
  const liveness = serving('a')
  expect(checks(liveness, 3)).toEqual([])
  liveness.recordHeartbeat('a')
  expect(checks(liveness, 3)).toEqual([])
  expect(checks(liveness, 1)).toHaveLength(1)
})

test('a worker that starts may be silent for longer than one that serves', () => {
  const liveness = new Liveness<string>({ silentChecksMax: 3 })
  liveness.watch('a')
  expect(checks(liveness, 120)).toEqual([])
  expect(liveness.isServing('a')).toBe(false)
  expect(checks(liveness, 1)).toHaveLength(1)
})

test('a worker that has ended is never found', () => {
  const liveness = serving('a')
  liveness.unwatch('a')
  liveness.recordHeartbeat('a')
  expect(checks(liveness, 200)).toEqual([])
})

test('a first process that stood still finds no worker silent for that time: only its own checks count', () => {
  const liveness = serving('a')
  // An hour in which neither of the two ran is one late check.
  expect(checks(liveness, 1)).toEqual([])
  liveness.recordHeartbeat('a')
  expect(checks(liveness, 3)).toEqual([])
})
