import { setImmediate as nextTurn } from 'node:timers/promises'
import { algorithmOf, defineLimit, MODULE_CHOICES, RATE_MODULE_NAMES } from '@sluice/core'
import { createLimiter } from '@sluice/limiter'
import { manualClock } from '@sluice/limiter/testing'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { failureOf } from './editor.test-helper.js'
import { simulateLimits } from './simulate-limits.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

const times = (...list: readonly number[]) => list.map((atMs) => ({ atMs }))

async function allowed(limit: unknown, ...list: readonly number[]) {
  const [trial] = await simulateLimits([limit], times(...list))
  return trial?.outcomes.map((outcome) => outcome.allowed)
}

describe('a simulation', () => {
  test('a simulation returns the outcome of every call', async () => {
    const [trial] = await simulateLimits(['2/second'], times(0, 0, 0, 500))
    expect(trial).toEqual({
      limit: '2/second',
      algorithm: 'token-bucket',
      outcomes: [
        { allowed: true, delayMs: 0, remaining: 1, retryAfterMs: 0 },
        { allowed: true, delayMs: 0, remaining: 0, retryAfterMs: 0 },
        { allowed: false, delayMs: 0, remaining: 0, retryAfterMs: 500 },
        { allowed: true, delayMs: 0, remaining: 0, retryAfterMs: 0 },
      ],
    })
  })

  test('each limit has its own counter, even if limits are equal', async () => {
    const trials = await simulateLimits(['1/second', '1/second'], times(0))
    expect(trials.map(({ outcomes }) => outcomes[0]?.allowed)).toEqual([true, true])
  })

  test('windows that are aligned to the clock start with the simulation', async () => {
    const limit = { algorithm: 'fixed-window', max: 1, window: '1m' }
    expect(await allowed(limit, 0, 59_999, 60_000)).toEqual([true, false, true])
  })

  test('a delayed call is allowed, with its delay', async () => {
    const limit = { algorithm: 'leaky-bucket', max: 1, window: '1s', queue: 2 }
    const [trial] = await simulateLimits([limit], times(0, 0, 0, 0))
    expect(trial?.outcomes.map(({ delayMs }) => delayMs).slice(0, 2)).toEqual([0, 1000])
    expect(trial?.outcomes.at(-1)?.allowed).toBe(false)
  })

  test('a refused call is charged if the limit says so', async () => {
    const gentle = { max: 2, window: '1s' }
    const costly = { ...gentle, onRefusal: 'charge' }
    const calls = [{ atMs: 0 }, { atMs: 0, cost: 2 }, { atMs: 0 }]
    const trials = await simulateLimits([gentle, costly], calls)
    const lasts = trials.map(({ outcomes }) => outcomes.at(-1)?.allowed)
    expect(lasts).toEqual([true, false])
  })

  test('a call that exceeds a limit is owed if the limit says so', async () => {
    const owing = { algorithm: 'fixed-window', max: 4, window: '1m', onRefusal: 'overdraw' }
    const calls = [{ atMs: 0, cost: 3 }, { atMs: 0, cost: 3 }, { atMs: 0 }, { atMs: 60_000 }]
    const [trial] = await simulateLimits([owing], calls)
    const isAllowed = trial?.outcomes.map((outcome) => outcome.allowed)
    expect(isAllowed).toEqual([true, false, false, true])
    expect(trial?.outcomes[1]).toMatchObject({ remaining: 0, retryAfterMs: 60_000 })
  })

  test('a cost above what a limit holds never fits', async () => {
    const [trial] = await simulateLimits(['2/second'], [{ atMs: 0, cost: 3 }])
    expect(trial?.outcomes[0]).toMatchObject({ allowed: false, retryAfterMs: null })
  })

  test('problems of every limit are reported at once, with their places', async () => {
    const limits = ['10/s', '1/second', { max: 'x', window: '1s' }]
    const { code, problems } = await failureOf(simulateLimits(limits, []))
    expect(code).toBe('rules_invalid')
    expect(problems).toMatchObject([
      { field: 'limits[0]', suggestion: '10/second' },
      { field: 'limits[2].max', found: '"x"' },
    ])
    expect(problems.map(({ message }) => message.split(':')[0])).toEqual([
      'limits[0]',
      'limits[2].max',
    ])
    expect(problems.some((problem) => 'rule' in problem)).toBe(false)
  })

  test('a limiter decides the same calls in the same way', async () => {
    const specs = RATE_MODULE_NAMES.map((name) => ({
      ...MODULE_CHOICES[name],
      max: 3,
      window: '1s',
    }))
    const calls = fc.array(fc.record({ gap: fc.nat({ max: 400 }), cost: fc.nat({ max: 3 }) }), {
      maxLength: 30,
    })
    const property = fc.asyncProperty(fc.constantFrom(...specs), calls, async (limit, gaps) => {
      const clock = manualClock()
      const limiter = createLimiter({ rules: [{ id: 'a', limits: [limit] }], clock })
      const windowMs = 1000
      clock.advance(windowMs - ((clock.now() / 1000) % windowMs))
      let atMs = 0
      const made: { readonly atMs: number; readonly cost: number }[] = []
      const said: boolean[] = []
      for (const { gap, cost } of gaps) {
        clock.advance(gap)
        atMs += gap
        made.push({ atMs, cost })
        said.push((await limiter.check({ attributes: {}, cost })).allowed)
      }
      await limiter.close()
      const [trial] = await simulateLimits([limit], made)
      expect(trial?.outcomes.map((outcome) => outcome.allowed)).toEqual(said)
    })
    await fc.assert(property, { numRuns: propertyRuns(60) })
  })

  test('a simulation of a calendar window starts with a window', async () => {
    const dayMs = 86_400_000
    const calls = [0, 1, dayMs - 1, dayMs].map((atMs) => ({ atMs }))
    for (const zone of ['UTC', 'Europe/Berlin']) {
      const limit = { algorithm: 'fixed-window', max: 2, window: 'day', zone }
      const [trial] = await simulateLimits([limit], calls)
      expect(trial?.limit).toBe(`{ algorithm: fixed-window, max: 2, window: day, zone: ${zone} }`)
      expect(trial?.outcomes.map((outcome) => outcome.allowed)).toEqual([true, true, false, true])
      expect(trial?.outcomes[2]?.retryAfterMs).toBe(1)
    }
  })

  test('the algorithm is the one that stores use', async () => {
    for (const name of RATE_MODULE_NAMES) {
      const choice = MODULE_CHOICES[name]
      const limit = defineLimit({ ...choice, max: 1, windowMs: 1000 })
      const [trial] = await simulateLimits([{ ...choice, max: 1, window: '1s' }], [])
      expect(trial?.algorithm).toBe(algorithmOf(limit).name)
    }
  })
})

describe('the largest simulation', () => {
  /** A log of as many entries as it can have takes longest. */
  const limit = { algorithm: 'sliding-window-log', max: 10_000, window: '1d' }
  const largest = () =>
    simulateLimits(
      Array.from({ length: 12 }, () => limit),
      Array.from({ length: 2000 }, (_, atMs) => ({ atMs, cost: 5 })),
    )

  test('calls are decided while a simulation runs', async () => {
    let turns = 0
    const isOver = largest().then(() => true)
    while (!(await Promise.race([isOver, nextTurn(false)]))) turns++
    expect(turns).toBeGreaterThan(2)
  })

  test('simulations run one at a time, a few wait, and more are refused', async () => {
    const all = Array.from({ length: 10 }, largest)
    const problem = { code: 'rules_unavailable', message: expect.stringContaining('Try again') }
    await expect(all[9]).rejects.toMatchObject(problem)
    expect(await Promise.all(all.slice(0, 9))).toHaveLength(9)
  })
})
