import { expect, test } from 'vitest'
import { type Drainable, drain } from './shutdown.js'

/** A drainable part with the given number of calls over time, and a log of its operations. */
function world(underWay: (nowMs: number) => number, leaving?: (nowMs: number) => number) {
  const done: string[] = []
  let nowMs = 0
  const part: Drainable = {
    beginDraining: () => void done.push(`${nowMs} draining`),
    stopAccepting: () => {
      done.push(`${nowMs} stopped`)
      return Promise.resolve()
    },
    closeIdle: () => {
      if (done.at(-1) !== 'idle closed') done.push('idle closed')
    },
    inFlight: () => underWay(nowMs),
    ...(leaving && { leaving: () => leaving(nowMs) }),
    destroyAll: () => void done.push(`${nowMs} destroyed`),
  }
  const sleep = (ms: number) => {
    nowMs += ms
    return Promise.resolve()
  }
  const options = { clock: { now: () => nowMs }, withinMs: 10_000, sleep, onStopped: () => {} }
  return { done, run: (delayMs: number) => drain([part], { ...options, delayMs }) }
}

test('a shutdown waits for its delay, refuses new calls, and ends with the last response', async () => {
  const { done, run } = world((nowMs) => (nowMs < 3000 ? 2 : 0))
  expect(await run(1000)).toEqual({ cut: 0 })
  expect(done).toEqual(['0 draining', '1000 stopped', 'idle closed', '3000 destroyed'])
})

test('a shutdown gives a new connection a moment to send its call', async () => {
  const { done, run } = world(() => 0)
  await run(0)
  expect(done).toEqual(['0 draining', '0 stopped', '200 destroyed'])
})

test('a shutdown cuts the remaining calls before its time is over, and counts them', async () => {
  const { done, run } = world(() => 3)
  expect(await run(1000)).toEqual({ cut: 3 })
  expect(done.at(-1)).toBe('9700 destroyed')
})

test('a shutdown waits for clients that do not know of it yet, and counts none of them as a call', async () => {
  const { done, run } = world(
    () => 0,
    (nowMs) => (nowMs < 2000 ? 1 : 0),
  )
  expect(await run(0)).toEqual({ cut: 0 })
  expect(done.at(-1)).toBe('2000 destroyed')
  const never = world(
    () => 0,
    () => 1,
  )
  expect(await never.run(0)).toEqual({ cut: 0 })
})
