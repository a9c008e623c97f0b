import { describe, expect, test } from 'vitest'
import { FakeScheduler } from '../channel.test-helper.js'
import { ClockWatch, type WatchedClock } from './clock-watch.js'

function start() {
  const scheduler = new FakeScheduler()
  const problems: string[] = []
  const clocks = new Map<string, WatchedClock['ahead']>()
  const watch = new ClockWatch({
    clocks: () => [...clocks].map(([address, ahead]) => ({ address, ahead })),
    scheduler,
    onProblem: (text) => void problems.push(text),
  })
  watch.start()
  /** What is seen from now on, at one look. */
  const see = async (offsetMs: number, errorMs = 1, address = 'a:1') => {
    clocks.set(address, { offsetUs: offsetMs * 1000, errorUs: errorMs * 1000 })
    await scheduler.advance(5000)
  }
  return { watch, scheduler, problems, clocks, see }
}

describe('the watch of clocks', () => {
  test('tells once that a clock is off by more than 20 ms, and once that it is not', async () => {
    const { problems, see } = start()
    for (const offset of [0, 20, 21, 22, 300, 18, 16, 15, 18, 21]) await see(offset)
    expect(problems).toEqual([
      'Redis at a:1: its clock is 22 ms ahead of ours; accepted: at most 20 ms, so keep both by NTP',
      'Redis at a:1: its clock is near to ours again (15 ms ahead of ours)',
    ])
    await see(-2000)
    expect(problems.at(-1)).toBe(
      'Redis at a:1: its clock is 2 s behind ours; accepted: at most 20 ms, so keep both by NTP',
    )
  })

  test('holds no slow answer against a clock', async () => {
    const { problems, see } = start()
    await see(150, 140)
    expect(problems).toEqual([])
    await see(170, 140)
    expect(problems).toHaveLength(1)
  })

  test('says nothing of a clock that is not known, and does not take it for a good one', async () => {
    const { problems, clocks, scheduler, see } = start()
    await see(50)
    clocks.set('a:1', undefined)
    await scheduler.advance(60_000)
    await see(50)
    await see(50, 1_000_000)
    expect(problems).toHaveLength(1)
  })

  test('tells of each node, and anew of one that was gone', async () => {
    const { problems, clocks, see } = start()
    await see(50)
    await see(-60, 1, 'b:1')
    clocks.delete('a:1')
    await see(-60, 1, 'b:1')
    await see(50)
    expect(problems.map((text) => text.slice(0, 12))).toEqual([
      'Redis at a:1',
      'Redis at b:1',
      'Redis at a:1',
    ])
  })

  test('is over when it is stopped', async () => {
    const { watch, scheduler, problems, see } = start()
    watch.stop()
    await see(500)
    expect([problems, scheduler.waiting]).toEqual([[], 0])
  })
})
