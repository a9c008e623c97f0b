import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Deadlines, type Expiring } from './deadlines.js'

class Waiting implements Expiring {
  readonly deadlineAtMs: number
  isAnswered = false
  expiredAtMs: number | undefined

  constructor(deadlineAtMs: number) {
    this.deadlineAtMs = deadlineAtMs
  }

  expire(): void {
    this.isAnswered = true
    this.expiredAtMs = performance.now()
  }
}

function make(
  replies: () => number = () => 0,
  deadlines = new Deadlines(() => performance.now(), replies),
) {
  return (deadlineMs: number) => {
    const call = new Waiting(performance.now() + deadlineMs)
    deadlines.add(call, deadlineMs)
    return call
  }
}

describe('deadlines', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('a call without an answer ends at its deadline, not before', () => {
    const call = make()(20)
    vi.advanceTimersByTime(19)
    expect(call.expiredAtMs).toBeUndefined()
    vi.advanceTimersByTime(3)
    expect(call.isAnswered).toBe(true)
  })

  test('once they are closed no call waits and no timer is left', () => {
    const deadlines = new Deadlines(
      () => performance.now(),
      () => 0,
    )
    const add = make(() => 0, deadlines)
    const [short, long] = [add(20), add(10_000)]
    const answered = add(10_000)
    answered.isAnswered = true
    deadlines.close()
    expect([short.isAnswered, long.isAnswered]).toEqual([true, true])
    expect([answered.expiredAtMs, vi.getTimerCount()]).toEqual([undefined, 0])
  })

  test('a call that was answered is left alone', () => {
    const call = make()(20)
    call.isAnswered = true
    vi.advanceTimersByTime(50)
    expect(call.expiredAtMs).toBeUndefined()
  })

  test('a short deadline does not wait behind a long one', () => {
    const add = make()
    const long = add(1000)
    const short = add(5)
    vi.advanceTimersByTime(8)
    expect([short.isAnswered, long.isAnswered]).toEqual([true, false])
    vi.advanceTimersByTime(1000)
    expect(long.isAnswered).toBe(true)
  })

  test('calls that come one after the other end one after the other', () => {
    const add = make()
    const calls: Waiting[] = []
    for (let n = 0; n < 30; n++) {
      calls.push(add(10))
      vi.advanceTimersByTime(1)
    }
    vi.advanceTimersByTime(20)
    const late = calls.map(({ expiredAtMs = Infinity, deadlineAtMs }) => expiredAtMs - deadlineAtMs)
    expect(Math.min(...late)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...late)).toBeLessThanOrEqual(3)
  })

  test('while replies are still being read nobody is given up, up to the cap', () => {
    let replies = 0
    const call = make(() => ++replies)(20)
    vi.advanceTimersByTime(40)
    expect(call.isAnswered).toBe(false)
    vi.advanceTimersByTime(10)
    expect(call.isAnswered).toBe(true)
  })

  test('a process whose timers ring late is busy, until one rings in time', () => {
    const clock = { lagMs: 0 }
    const deadlines = new Deadlines(
      () => performance.now() + clock.lagMs,
      () => 0,
    )
    const wait = () => {
      deadlines.add(new Waiting(performance.now() + 20), 20)
      vi.advanceTimersByTime(10)
    }
    wait()
    expect(deadlines.isBusy).toBe(false)
    clock.lagMs = 50
    vi.advanceTimersByTime(30)
    expect(deadlines.isBusy).toBe(true)
    wait()
    vi.advanceTimersByTime(30)
    expect(deadlines.isBusy).toBe(false)
  })

  test('a hundred thousand answered calls leave nothing behind', () => {
    const add = make()
    for (let n = 0; n < 100_000; n++) add(10_000).isAnswered = true
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(10_001)
    expect(vi.getTimerCount()).toBe(0)
  })
})
