import { expect, test } from 'vitest'
import { BatchLatency } from '../../../counter-store/batch-latency.js'
import { StoreSlowness } from './store-slow.js'

const STORE = '10.0.0.1:6379'
const [FAST, SLOW] = [0.002, 0.03]

function setUp(deadlineMs = 50) {
  const latency = new BatchLatency(deadlineMs)
  const slowness = new StoreSlowness()
  /** A second of batches, of which some take the given time. */
  const second = (batches: number, slow = 0, seconds = SLOW) => {
    for (let i = 0; i < batches; i++) latency.record(STORE, i < slow ? seconds : FAST)
    return slowness.evaluate(latency)
  }
  const seconds = (times: number, batches: number, slow = 0, each = SLOW) =>
    Array.from({ length: times }, () => second(batches, slow, each).length)
  return { second, seconds, latency, slowness }
}

test('a p99 above half the deadline is found in the third second', () => {
  const { second, seconds } = setUp()
  expect(seconds(2, 100, 2)).toEqual([0, 0])
  expect(second(100, 2)).toEqual([
    {
      subject: STORE,
      summary:
        `The p99 latency of Redis at ${STORE} is above 25 ms, half the deadline: ` +
        '6 of 300 batches of 10 s took longer.',
      past:
        `The p99 latency of Redis at ${STORE} was above 25 ms, half the deadline: ` +
        '6 of 300 batches of 10 s took longer.',
      details: { store: STORE, deadlineMs: 50, slowMs: 25, batches: 300, slow: 6 },
    },
  ])
})

test('one slow batch in a hundred is still a p99 below half the deadline', () => {
  const { seconds } = setUp()
  expect(new Set(seconds(20, 100, 1))).toEqual(new Set([0]))
})

test('exactly half the deadline is not slow, and half of a short deadline is short', () => {
  expect(new Set(setUp().seconds(20, 100, 100, 0.025))).toEqual(new Set([0]))
  expect(setUp(5).seconds(3, 100, 100, 0.0026)).toEqual([0, 0, 1])
})

test('a short pause is not found, however many batches it delayed', () => {
  const { second, seconds } = setUp()
  seconds(5, 100)
  expect(second(100, 60)).toEqual([])
  expect(new Set(seconds(20, 100))).toEqual(new Set([0]))
})

test('a few batches have no p99', () => {
  const { seconds } = setUp()
  expect(new Set(seconds(20, 9, 9))).toEqual(new Set([0]))
})

test('slowness ends at most ten seconds after the last slow batch, even without traffic', () => {
  const { seconds } = setUp()
  seconds(10, 100, 50)
  expect(seconds(10, 100).at(-1)).toBe(0)
  seconds(10, 100, 50)
  expect(seconds(10, 0).at(-1)).toBe(0)
})

test('each Redis node is judged separately', () => {
  const { latency, slowness } = setUp()
  const evaluate = () => {
    for (let i = 0; i < 100; i++) {
      latency.record('a:1', FAST)
      latency.record('b:1', i < 2 ? SLOW : FAST)
    }
    return slowness.evaluate(latency).map(({ subject }) => subject)
  }
  expect([evaluate(), evaluate(), evaluate()]).toEqual([[], [], ['b:1']])
})

test('the memory store is never slow', () => {
  expect(new StoreSlowness().evaluate(undefined)).toEqual([])
})
