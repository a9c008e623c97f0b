import type { RedisStats } from '@sluice/limiter/redis'
import { expect, test } from 'vitest'
import { StoreHealth } from './store-health.js'

const nodesOf = (...isAnswering: readonly boolean[]) =>
  isAnswering.map((answers, i) => ({
    address: `10.0.0.${i}:6379`,
    isAnswering: answers,
    isBreakerOpen: !answers,
    breakerOpened: 0,
    clock: undefined,
    inFlight: 0,
    queuedTakes: 0,
  }))

function setUp() {
  let now = Date.UTC(2026, 0, 1)
  const held: { stats: RedisStats } = {
    stats: { state: 'starting', nodes: [], fleet: { size: 1, ageMs: 0 }, memory: undefined },
  }
  const health = new StoreHealth(() => held.stats, { now: () => now })
  const become = (state: RedisStats['state'], ...isAnswering: readonly boolean[]) => {
    now += 1000
    held.stats = { ...held.stats, state, nodes: nodesOf(...isAnswering) }
    health.poll()
  }
  return { health, become }
}

test('it tells since when Redis does not answer, and forgets that when it does', () => {
  const { health, become } = setUp()
  expect(health.describe()).toBe('redis: not answering since 2026-01-01T00:00:00.000Z')
  become('ready', true)
  expect(health.describe()).toBe('redis: answering')
  become('ready', false)
  become('ready', false)
  expect(health.describe()).toBe('redis: not answering since 2026-01-01T00:00:02.000Z')
  become('ready', true)
  become('ready', false)
  expect(health.describe()).toBe('redis: not answering since 2026-01-01T00:00:05.000Z')
})

test('of several nodes it tells how many, and since when the first of them', () => {
  const { health, become } = setUp()
  become('ready', true, true, true)
  become('ready', true, false, true)
  become('ready', true, false, false)
  expect(health.describe()).toBe('redis: 2 of 3 nodes not answering since 2026-01-01T00:00:02.000Z')
  become('ready')
  expect(health.describe()).toBe('redis: not answering since 2026-01-01T00:00:04.000Z')
})

test('a Redis that is never to be used is told as such', () => {
  const { health, become } = setUp()
  become('refused')
  expect(health.describe()).toBe('redis: refuses this node, the log says why')
  become('unfit')
  expect(health.describe()).toBe('redis: unfit, the log says why')
})
