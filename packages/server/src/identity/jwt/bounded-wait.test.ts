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

test('a job that ends in time resolves for all waiters, and leaves no timer', async () => {
  const { job, resolve } = start()
  const waits = [job.within(100), job.within(100), job.within(200)]
  await vi.advanceTimersByTimeAsync(99)
  resolve('done')
  expect(await Promise.all(waits)).toEqual(['done', 'done', 'done'])
  expect(vi.getTimerCount()).toBe(0)
})

test('a waiter whose time is over gets a timeout, and the job goes on for the others', async () => {
  const { job, resolve } = start()
  const [soon, later] = [job.within(100), job.within(200)]
  await vi.advanceTimersByTimeAsync(101)
  expect(await soon).toBe('late')
  resolve('done')
  expect(await later).toBe('done')
  expect(await job.done).toBe('done')
  expect(vi.getTimerCount()).toBe(0)
})

test('a thousand waiters with the same deadline cost one timer', () => {
  const { job } = start()
  for (let i = 0; i < 1000; i++) void job.within(100)
  expect(vi.getTimerCount()).toBe(1)
})

test('a waiter that comes after its deadline does not wait', async () => {
  const { job } = start()
  void job.within(100)
  await vi.advanceTimersByTimeAsync(101)
  expect(await job.within(100)).toBe('late')
  expect(vi.getTimerCount()).toBe(0)
})

test('a job that is done when the timer fires late still counts', async () => {
  const { job, resolve } = start()
  const wait = job.within(100)
  // The timer is late, and so is everything else: the result arrives in the same turn.
  vi.advanceTimersToNextTimer()
  resolve('done')
  expect(await wait).toBe('done')
})

test('a failure of the job rejects the wait, and leaves no timer', async () => {
  const { job, reject } = start()
  const wait = job.within(100)
  reject(new Error('x'))
  await expect(wait).rejects.toThrow('x')
  expect(vi.getTimerCount()).toBe(0)
})
