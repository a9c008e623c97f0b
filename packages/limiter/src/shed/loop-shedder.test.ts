/** The controller in overload: simulated seconds, with a queue before the process. */
import { describe, expect, test } from 'vitest'
import { LoopShedder } from './loop-shedder.js'

const TARGET_MS = 50
/** Critical, writes, reads and test calls of a second at an offered load of 1. */
const MIX = [100, 200, 500, 200] as const

/**
 * A process that works for a second in a second. Its loop is the later the nearer it is to full;
 * what it cannot do waits, up to the second that callers wait.
 */
class BusyProcess {
  readonly shedder: LoopShedder
  #backlog = 0
  #nowMs = 0
  /** What was let in of each priority in the last second, as a share of what came. */
  served: readonly number[] = []
  delayMs = 0

  constructor(shedder: LoopShedder) {
    this.shedder = shedder
  }

  second(offered: number): void {
    let work = 0
    let dice = 0
    this.served = MIX.map((calls, priority) => {
      const count = Math.round(calls * offered)
      let admitted = 0
      for (let i = 0; i < count; i++) {
        this.shedder.record(priority)
        // Evenly spread points, as those of many callers.
        dice = (dice + 0.618_033_988_75) % 1
        if (dice >= (this.shedder.admitted[priority] ?? 1)) continue
        admitted += 1
        work += 0.001
      }
      return count === 0 ? 1 : admitted / count
    })
    this.#backlog = Math.min(1, Math.max(0, this.#backlog + work - 1))
    const busy = Math.min(0.99, work)
    this.delayMs = this.#backlog * 1000 + (5 * busy) / (1 - busy)
    this.#nowMs += 1000
    this.shedder.step(this.#nowMs, this.delayMs / TARGET_MS)
  }
}

const shedderOf = (least = 0.1, isKept = [true, false, false, false]) =>
  new LoopShedder({ least, isKept })

describe('an overload', () => {
  test.each([2, 5])('of %d is shed in ln w / 0.22 s, and all calls are back in 60 s', (offered) => {
    const process = new BusyProcess(shedderOf())
    for (let second = 0; second < 30; second++) process.second(0.5)
    expect(process.shedder.share).toBe(1)
    let seconds = 0
    while (process.shedder.share * offered > 1) {
      process.second(offered)
      seconds += 1
    }
    expect(seconds).toBeLessThanOrEqual(Math.ceil(Math.log(offered) / 0.22))
    let quiet = 0
    let lowest = process.shedder.share
    while (process.shedder.share < 1) {
      process.second(0.5)
      lowest = Math.min(lowest, process.shedder.share)
      quiet += 1
    }
    // What waited is worked off, then nothing grows for 5 s, then 0.02 comes back each second.
    expect(quiet).toBeLessThanOrEqual(2 + 5 + Math.ceil((1 - lowest) / 0.02))
    expect(quiet).toBeLessThanOrEqual(60)
  })

  test('sheds the least important first, and nothing that is kept', () => {
    const process = new BusyProcess(shedderOf())
    for (let second = 0; second < 60; second++) process.second(2)
    const [critical, writes, reads = 0, other] = process.served
    expect(critical).toBe(1)
    expect(writes).toBe(1)
    expect(reads).toBeGreaterThan(0)
    expect(reads).toBeLessThan(1)
    expect(other).toBe(0)
  })

  test('that goes on turns at most 20 times in ten minutes, with most of the work done', () => {
    const process = new BusyProcess(shedderOf())
    for (let second = 0; second < 60; second++) process.second(2)
    let turns = 0
    let direction = 0
    let done = 0
    for (let second = 0; second < 600; second++) {
      const before = process.shedder.share
      process.second(2)
      done += process.served.reduce((sum, share, i) => sum + share * (MIX[i] ?? 0) * 2, 0) / 1000
      const now = Math.sign(process.shedder.share - before)
      if (now === 0) continue
      if (direction !== 0 && now !== direction) turns += 1
      direction = now
    }
    expect(turns).toBeLessThanOrEqual(20)
    expect(done / 600).toBeGreaterThan(0.85)
  })

  test('below full sheds nothing in ten minutes', () => {
    const process = new BusyProcess(shedderOf())
    for (let second = 0; second < 600; second++) process.second(0.7)
    expect(process.shedder.share).toBe(1)
  })
})

describe('LoopShedder', () => {
  test.each([
    [1.2, 0.95],
    [1.8, 0.8],
    [20, 0.8],
    [0.95, 1],
    [0.5, 1],
  ])('a load of %d makes the share %d of what it was', (load, share) => {
    const shedder = shedderOf()
    shedder.step(0, load)
    expect(shedder.share).toBeCloseTo(share, 10)
  })

  test('grows five seconds after it shrank, and never falls below the least', () => {
    const shedder = shedderOf(0.75)
    for (let second = 0; second < 10; second++) shedder.step(second * 1000, 9)
    expect(shedder.share).toBe(0.75)
    for (let second = 10; second < 14; second++) shedder.step(second * 1000, 0)
    expect(shedder.share).toBe(0.75)
    shedder.step(14_000, 0)
    expect(shedder.share).toBeCloseTo(0.77, 10)
  })

  test('without calls sheds nobody', () => {
    const shedder = shedderOf()
    shedder.step(0, 9)
    expect(shedder.admitted).toEqual([1, 1, 1, 1])
  })

  test('a priority that is kept is let in even if it is more than the share', () => {
    const shedder = shedderOf(0.1, [false, true])
    for (let i = 0; i < 90; i++) shedder.record(1)
    for (let i = 0; i < 10; i++) shedder.record(0)
    for (let second = 0; second < 5; second++) shedder.step(second * 1000, 9)
    expect(shedder.admitted).toEqual([0, 1])
  })
})
