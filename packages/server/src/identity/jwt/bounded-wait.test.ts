import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { BoundedWait } from './bounded-wait.js'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function start() {
  const { promise, resolve, reject } = withResolvers()
  return { job: new BoundedWait(promise, 'late'), resolve, reject }
}

function withResolvers() {
  let resolve: (value: string) => void = () => {}
  let reject: (reason: Error) => void = () => {}
  const promise = new Promise<string>((onDone, onFailed) => {
    resolve = onDone
    reject = onFailed
  })
  return { promise, resolve, reject }
}

test('a job that is done in time answers all who wait, and leaves no timer', async () => {
  const { job, resolve } = start()
  const waits = [job.within(100), job.within(100), job.within(200)]
  await vi.advanceTimersByTimeAsync(99)
  resolve('done')
  expect(await Promise.all(waits)).toEqual(['done', 'done', 'done'])
  expect(vi.getTimerCount()).toBe(0)
})

test('whoever can wait no longer is told so, and the job goes on for the others', async () => {
  const { job, resolve } = start()
  const [soon, later] = [job.within(100), job.within(200)]
  await vi.advanceTimersByTimeAsync(101)
  expect(await soon).toBe('late')
  resolve('done')
  expect(await later).toBe('done')
  expect(await job.done).toBe('done')
  expect(vi.getTimerCount()).toBe(0)
})

test('a thousand who can wait equally long cost one timer', () => {
  const { job } = start()
  for (let i = 0; i < 1000; i++) void job.within(100)
  expect(vi.getTimerCount()).toBe(1)
})

test('whoever comes when that time is over does not wait', async () => {
  const { job } = start()
  void job.within(100)
  await vi.advanceTimersByTimeAsync(101)
  expect(await job.within(100)).toBe('late')
  expect(vi.getTimerCount()).toBe(0)
})

test('what is done when the time is looked at counts, though the machine was too busy', async () => {
  const { job, resolve } = start()
  const wait = job.within(100)
  // The timer is late, and so is all else: the answer comes in the same round.
  vi.advanceTimersToNextTimer()
  resolve('done')
  expect(await wait).toBe('done')
})

test('a failure is told, also to nobody', async () => {
  const { job, reject } = start()
  const wait = job.within(100)
  reject(new Error('x'))
  await expect(wait).rejects.toThrow('x')
  expect(vi.getTimerCount()).toBe(0)
})
