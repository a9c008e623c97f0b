/** Work in slices, with pieces that take real time. */
import { expect, test } from 'vitest'
import { monotonicMs } from '../../../lib/wall-clock.js'
import { SlicedWork } from './sliced-work.js'

function busyFor(ms: number): void {
  const endMs = monotonicMs() + ms
  while (monotonicMs() < endMs);
}

test('a piece runs at once if nothing is waiting', () => {
  const work = new SlicedWork()
  const done: number[] = []
  work.add(() => done.push(1))
  work.add(() => done.push(2))
  expect(done).toEqual([1, 2])
  expect(work.isBusy).toBe(false)
})

test('long work lets others run between its slices, and keeps its order', async () => {
  const work = new SlicedWork()
  const done: (number | string)[] = []
  for (let i = 0; i < 20; i++) {
    work.add(() => {
      busyFor(2)
      done.push(i)
    })
  }
  setImmediate(() => done.push('other'))
  expect(work.isBusy).toBe(true)
  while (work.isBusy) await new Promise(setImmediate)
  expect(done.indexOf('other')).toBeLessThan(20)
  expect(done.filter((each) => each !== 'other')).toEqual([...Array.from({ length: 20 }).keys()])
})
