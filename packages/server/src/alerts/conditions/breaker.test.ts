import type { RedisNodeStats, RedisStats } from '@sluice/limiter/redis'
import { expect, test } from 'vitest'
import { StoreSilence } from './breaker.js'
import { nodeWith } from './conditions.test-helper.js'

const statsOf = (nodes: readonly RedisNodeStats[], state: RedisStats['state'] = 'ready') => ({
  state,
  nodes,
  fleet: { size: 1, ageMs: 0 },
  memory: undefined,
})
const well = nodeWith()
const gone = nodeWith({ isAnswering: false })
const open = nodeWith({ isAnswering: false, isBreakerOpen: true })

test('an open breaker is found at the first look', () => {
  const [found] = new StoreSilence().look(statsOf([open]))
  expect(found).toMatchObject({ subject: open.address, details: { store: open.address } })
  expect(found?.summary).toContain('does not answer in time')
})

test('a node that refuses connections is found after three looks, once, until it answers', () => {
  const silence = new StoreSilence()
  expect(silence.look(statsOf([gone]))).toEqual([])
  expect(silence.look(statsOf([gone]))).toEqual([])
  const summary = `Redis at ${gone.address} cannot be reached; rules answer by their posture.`
  for (let i = 0; i < 3; i++) expect(silence.look(statsOf([gone]))).toMatchObject([{ summary }])
  expect(silence.look(statsOf([well]))).toEqual([])
  expect(silence.look(statsOf([gone]))).toEqual([])
})

test('its breaker opening meanwhile does not make two of it', () => {
  const silence = new StoreSilence()
  for (let i = 0; i < 3; i++) silence.look(statsOf([gone]))
  expect(silence.look(statsOf([open]))).toHaveLength(1)
})

test('a Redis that was never there, or is unfit, is told of without an address', () => {
  for (const state of ['starting', 'unfit'] as const) {
    const silence = new StoreSilence()
    silence.look(statsOf([], state))
    silence.look(statsOf([], state))
    expect(silence.look(statsOf([], state))).toMatchObject([{ subject: '', details: {} }])
  }
})

test('a node that answers and refuses this one is not said to be out of reach', () => {
  const refusing = nodeWith({ isAnswering: false, refusal: 'WRONGPASS invalid password' })
  const silence = new StoreSilence()
  for (let i = 0; i < 5; i++) expect(silence.look(statsOf([refusing]))).toEqual([])
})

test('counters in memory have no breaker', () => {
  expect(new StoreSilence().look(undefined)).toEqual([])
})
