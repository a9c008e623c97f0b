import type { RemoteHealth } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { StoreOutageTimes } from './store-outage-times.js'

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
  let remote: RemoteHealth = { state: 'starting', nodes: [], fleet: { size: 1, ageMs: 0 } }
  const outages = new StoreOutageTimes(() => remote, { now: () => now })
  const become = (state: RemoteHealth['state'], ...isAnswering: readonly boolean[]) => {
    now += 1000
    remote = { ...remote, state, nodes: nodesOf(...isAnswering) }
    outages.poll()
  }
  return { outages, become }
}

test('the description says since when Redis does not answer, and starts over after it answered', () => {
  const { outages, become } = setUp()
  expect(outages.describe()).toBe('redis: not answering since 2026-01-01T00:00:00.000Z')
  become('ready', true)
  expect(outages.describe()).toBe('redis: answering')
  become('ready', false)
  become('ready', false)
  expect(outages.describe()).toBe('redis: not answering since 2026-01-01T00:00:02.000Z')
  become('ready', true)
  become('ready', false)
  expect(outages.describe()).toBe('redis: not answering since 2026-01-01T00:00:05.000Z')
})

test('the description says how many nodes do not answer, and since when the first of them', () => {
  const { outages, become } = setUp()
  become('ready', true, true, true)
  become('ready', true, false, true)
  become('ready', true, false, false)
  expect(outages.describe()).toBe(
    'redis: 2 of 3 nodes not answering since 2026-01-01T00:00:02.000Z',
  )
  become('ready')
  expect(outages.describe()).toBe('redis: not answering since 2026-01-01T00:00:04.000Z')
})

test('the description says that Redis refuses this node, or is unfit', () => {
  const { outages, become } = setUp()
  become('refused')
  expect(outages.describe()).toBe('redis: refuses this node, see the log')
  become('unfit')
  expect(outages.describe()).toBe('redis: unfit, see the log')
})
