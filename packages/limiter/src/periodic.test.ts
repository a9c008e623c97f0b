import { describe, expect, test } from 'vitest'
import { FakeScheduler, settled } from './redis/connection/channel.test-helper.js'
import { PeriodicTask } from './periodic.js'

function makeTask(run: (round: number) => Promise<void>) {
  const scheduler = new FakeScheduler()
  let rounds = 0
  const made = new PeriodicTask(100, () => run((rounds += 1)), scheduler)
  return { scheduler, rounds: made, count: () => rounds }
}

describe('PeriodicTask', () => {
  test('periodic runs start at once and repeat at their interval', async () => {
    const { scheduler, rounds, count } = makeTask(async () => {})
    rounds.start()
    expect(count()).toBe(1)
    await scheduler.advance(350)
    expect(count()).toBe(4)
  })

  test('periodic runs begin after one interval if requested', async () => {
    const { scheduler, rounds, count } = makeTask(async () => {})
    rounds.start('later')
    expect(count()).toBe(0)
    await scheduler.advance(100)
    expect(count()).toBe(1)
  })

  test('periodic runs never overlap: a slow one replaces those after it', async () => {
    let finish = () => {}
    const { scheduler, rounds, count } = makeTask((round) =>
      round === 1 ? new Promise((resolve) => (finish = resolve)) : Promise.resolve(),
    )
    rounds.start()
    await scheduler.advance(1000)
    expect(count()).toBe(1)
    finish()
    await settled()
    await scheduler.advance(100)
    expect(count()).toBe(2)
  })

  test('periodic runs go on after one that rejects and one that throws', async () => {
    const { scheduler, rounds, count } = makeTask((round) => {
      if (round === 1) return Promise.reject(new Error('no'))
      if (round === 2) throw new Error('no')
      return Promise.resolve()
    })
    rounds.start()
    await scheduler.advance(300)
    expect(count()).toBe(4)
  })

  test('periodic runs end when stopped, and leave nothing scheduled', async () => {
    const { scheduler, rounds, count } = makeTask(async () => {})
    rounds.start()
    rounds.start()
    await scheduler.advance(100)
    rounds.stop()
    expect(scheduler.waiting).toBe(0)
    await scheduler.advance(1000)
    expect(count()).toBe(2)
  })
})
