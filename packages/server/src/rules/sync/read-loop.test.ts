import { expect, test } from 'vitest'
import { manualScheduler, settle } from '../../lib/manual-scheduler.test-helper.js'
import { ReadLoop } from './read-loop.js'

function loopOf() {
  const scheduler = manualScheduler()
  const starts: number[] = []
  const ends: ((error?: Error) => void)[] = []
  const loop = new ReadLoop(() => {
    starts.push(scheduler.nowMs())
    return new Promise((resolve, reject) => {
      ends.push((error) => (error === undefined ? resolve() : reject(error)))
    })
  }, scheduler)
  const end = async (error?: Error) => {
    ends.shift()?.(error)
    await settle()
  }
  return { loop, scheduler, starts, end }
}

test('the first change is read at once, and those of the next 250 ms together', async () => {
  const { loop, scheduler, starts, end } = loopOf()
  loop.requestRead()
  expect(starts).toEqual([0])
  await end()
  for (let i = 0; i < 10; i++) loop.requestRead()
  await scheduler.advance(249)
  expect(starts).toEqual([0])
  await scheduler.advance(1)
  expect(starts).toEqual([0, 250])
  await end()
  await scheduler.advance(10_000)
  expect(starts).toEqual([0, 250])
})

test('10,000 changes in 10 s cause 41 reads, the last of them after the last change', async () => {
  const { loop, scheduler, starts, end } = loopOf()
  for (let i = 0; i < 10_000; i++) {
    loop.requestRead()
    await end()
    if (i % 10 === 9) await scheduler.advance(10)
  }
  await scheduler.advance(1000)
  expect(starts).toHaveLength(41)
  expect(starts.at(-1)).toBe(10_000)
})

test('reads never overlap, and a change during a read is read after it', async () => {
  const { loop, scheduler, starts, end } = loopOf()
  loop.requestRead()
  await scheduler.advance(1000)
  loop.requestRead()
  loop.requestRead()
  await scheduler.advance(1000)
  expect(starts).toEqual([0])
  await end()
  expect(starts).toEqual([0])
  // A pause, because the read took long.
  await scheduler.advance(250)
  expect(starts).toEqual([0, 2250])
  await end()
  await scheduler.advance(1000)
  expect(starts).toHaveLength(2)
})

test('a failed read is retried with growing pauses of up to 6 s', async () => {
  const { loop, scheduler, starts, end } = loopOf()
  loop.requestRead()
  for (let i = 0; i < 10; i++) {
    await end(new Error('gone'))
    const before = starts.length
    while (starts.length === before) await scheduler.advance(10)
  }
  const gaps = starts.slice(1).map((at, i) => at - (starts[i] ?? 0))
  for (const [i, gap] of gaps.entries()) {
    const least = Math.min(250 * 2 ** i, 5000)
    expect(gap).toBeGreaterThanOrEqual(least)
    expect(gap).toBeLessThanOrEqual(least * 1.2 + 10)
  }
  await end()
  await scheduler.advance(60_000)
  expect(starts).toHaveLength(11)
})

test('readNow settles with a read that began after the call, also if it fails', async () => {
  const { loop, starts, end } = loopOf()
  loop.requestRead()
  const results: string[] = []
  void loop.readNow().then(() => results.push('first'))
  void loop.readNow().catch((error: Error) => results.push(error.message))
  await end()
  expect(results).toEqual([])
  expect(starts).toHaveLength(2)
  await end()
  expect(results).toEqual(['first'])
  const failing = expect(loop.readNow()).rejects.toThrow('gone')
  await end(new Error('gone'))
  await failing
})

test('a closed loop reads nothing more and rejects those that wait', async () => {
  const { loop, scheduler, starts, end } = loopOf()
  loop.requestRead()
  const asked = loop.readNow()
  const closed = loop.close()
  await expect(asked).rejects.toThrow('stopped')
  await end(new Error('gone'))
  await closed
  loop.requestRead()
  await scheduler.advance(60_000)
  expect(starts).toEqual([0])
})
