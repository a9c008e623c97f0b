import type { RemoteHealth } from '@sluice/limiter'
import { describe, expect, test } from 'vitest'
import { StoreOutage } from './breaker-open.js'
import { nodeWith } from './conditions.test-helper.js'
import { FleetUnknown, StoreRefusal } from './store-refused.js'

const statsOf = (more: Partial<RemoteHealth> = {}): RemoteHealth => ({
  state: 'ready',
  nodes: [nodeWith()],
  fleet: { size: 3, ageMs: 100 },
  ...more,
})

/** The findings of each of this many ticks. */
const evaluateTimes = (
  condition: { evaluate(stats: RemoteHealth | undefined): readonly unknown[] },
  stats: RemoteHealth | undefined,
  count: number,
) => Array.from({ length: count }, () => condition.evaluate(stats).length)

describe('a Redis that refuses this node', () => {
  test('is found at the third tick until it accepts, and is not reported as unreachable', () => {
    const refusal = new StoreRefusal()
    const refused = statsOf({ state: 'refused', nodes: [] })
    expect(evaluateTimes(refusal, refused, 4)).toEqual([0, 0, 1, 1])
    expect(refusal.evaluate(refused)).toMatchObject([{ subject: '' }])
    expect(refusal.evaluate(statsOf())).toEqual([])
    expect(evaluateTimes(refusal, refused, 3)).toEqual([0, 0, 1])
    expect(evaluateTimes(new StoreOutage(), refused, 4)).toEqual([0, 0, 0, 0])
  })

  test('is found by node if a right was revoked at run time', () => {
    const refusal = new StoreRefusal()
    const node = nodeWith({ address: 'b:1', refusal: "NOPERM no permissions to run 'time'" })
    const stats = statsOf({ nodes: [nodeWith(), node] })
    evaluateTimes(refusal, stats, 2)
    expect(refusal.evaluate(stats)).toMatchObject([
      { subject: 'b:1', details: { store: 'b:1' }, summary: expect.stringContaining('NOPERM') },
    ])
  })

  test('is not found with the memory store', () => {
    expect(evaluateTimes(new StoreRefusal(), statsOf(), 4)).toEqual([0, 0, 0, 0])
    expect(evaluateTimes(new StoreRefusal(), undefined, 4)).toEqual([0, 0, 0, 0])
  })
})

describe('a fleet that is not known', () => {
  const old = { fleet: { size: 3, ageMs: 5001 } }

  test('is found at the third tick if Redis answers but heartbeats fail', () => {
    const unknown = new FleetUnknown()
    expect(evaluateTimes(unknown, statsOf(old), 3)).toEqual([0, 0, 1])
    expect(unknown.evaluate(statsOf(old))).toMatchObject([
      { subject: '', details: { fleetSize: 3 } },
    ])
    expect(unknown.evaluate(statsOf())).toEqual([])
    const never = { fleet: { size: 1, ageMs: Infinity } }
    expect(evaluateTimes(unknown, statsOf(never), 3)).toEqual([0, 0, 1])
  })

  test('is not reported if Redis does not answer, has not started, or is not used', () => {
    const unknown = new FleetUnknown()
    const gone = statsOf({ ...old, nodes: [nodeWith({ isAnswering: false })] })
    expect(evaluateTimes(unknown, gone, 4)).toEqual([0, 0, 0, 0])
    expect(evaluateTimes(unknown, statsOf({ ...old, state: 'starting' }), 4)).toEqual([0, 0, 0, 0])
    expect(evaluateTimes(unknown, undefined, 4)).toEqual([0, 0, 0, 0])
  })
})
