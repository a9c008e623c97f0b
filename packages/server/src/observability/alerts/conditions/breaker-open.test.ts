import type { RemoteHealth, StoreNodeHealth } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { StoreOutage } from './breaker-open.js'
import { nodeWith } from './conditions.test-helper.js'

const statsOf = (nodes: readonly StoreNodeHealth[], state: RemoteHealth['state'] = 'ready') => ({
  state,
  nodes,
  fleet: { size: 1, ageMs: 0 },
  memory: undefined,
})
const well = nodeWith()
const gone = nodeWith({ isAnswering: false })
const open = nodeWith({ isAnswering: false, isBreakerOpen: true })

test('an open breaker is found at the first tick', () => {
  const [found] = new StoreOutage().evaluate(statsOf([open]))
  expect(found).toMatchObject({ subject: open.address, details: { store: open.address } })
  expect(found?.summary).toContain('does not answer in time')
})

test('a node that refuses connections is found after three ticks, until it answers', () => {
  const silence = new StoreOutage()
  expect(silence.evaluate(statsOf([gone]))).toEqual([])
  expect(silence.evaluate(statsOf([gone]))).toEqual([])
  const summary = `Redis at ${gone.address} cannot be reached; rules answer by their posture.`
  for (let i = 0; i < 3; i++) expect(silence.evaluate(statsOf([gone]))).toMatchObject([{ summary }])
  expect(silence.evaluate(statsOf([well]))).toEqual([])
  expect(silence.evaluate(statsOf([gone]))).toEqual([])
})

test('an unreachable node with an open breaker is found once', () => {
  const silence = new StoreOutage()
  for (let i = 0; i < 3; i++) silence.evaluate(statsOf([gone]))
  expect(silence.evaluate(statsOf([open]))).toHaveLength(1)
})

test('a Redis that was never reached, or is unfit, is reported without an address', () => {
  for (const state of ['starting', 'unfit'] as const) {
    const silence = new StoreOutage()
    silence.evaluate(statsOf([], state))
    silence.evaluate(statsOf([], state))
    expect(silence.evaluate(statsOf([], state))).toMatchObject([{ subject: '', details: {} }])
  }
})

test('a node that refuses this one is not reported as unreachable', () => {
  const refusing = nodeWith({ isAnswering: false, refusal: 'WRONGPASS invalid password' })
  const silence = new StoreOutage()
  for (let i = 0; i < 5; i++) expect(silence.evaluate(statsOf([refusing]))).toEqual([])
})

test('the memory store has no breaker', () => {
  expect(new StoreOutage().evaluate(undefined)).toEqual([])
})
