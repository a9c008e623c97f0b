import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  ALGORITHM_NAMES,
  type AlgorithmName,
  algorithmOf,
  MODULE_CHOICES,
} from './algorithms/index.js'
import {
  counterLimit,
  defineAdapterLimit,
  defineLimit,
  findLimitProblem,
  type LimitSpec,
  withDebt,
  withoutWaiting,
} from './limit.js'
import { MAX_INTEGER, MAX_UNITS } from './numbers.js'
import { propertyRuns } from '../../../tools/property-runs.js'

const DAY_MS = 86_400_000
const YEAR_MS = 366 * DAY_MS
const limit = (spec: Partial<LimitSpec>): LimitSpec => ({
  algorithm: 'token-bucket',
  max: 10,
  windowMs: spec.algorithm === 'concurrency' ? 0 : 1000,
  ...spec,
})
const isAccepted = (spec: LimitSpec): boolean => findLimitProblem(spec) === undefined

/** Invalid values that a rule file may have in place of a number. */
const NO_COUNTS: readonly unknown[] = [
  -1,
  -5,
  1.5,
  1e-9,
  NaN,
  Infinity,
  1e21,
  2 ** 53,
  '100',
  null,
  {},
]

describe('invalid numbers', () => {
  test.each(NO_COUNTS)('max: %s is refused', (max) => {
    expect(findLimitProblem(limit({ max: max as number }))).toEqual({
      code: 'limit-number',
      field: 'max',
      found: String(max),
      accepted: 'a whole number from 0 to 999999999999999',
    })
  })

  test.each([...NO_COUNTS, 0, 1, 100, 249, YEAR_MS + 1, 100 * 365 * DAY_MS])(
    'a window of %s ms is refused',
    (windowMs) => {
      expect(findLimitProblem(limit({ windowMs: windowMs as number }))).toMatchObject({
        code: 'limit-window',
        field: 'window',
        accepted: 'a duration from 250ms to 366d',
      })
    },
  )

  test.each([...NO_COUNTS, 0])('burst and queue: %s are refused', (value) => {
    const size = value as number
    const problem = { code: 'limit-number', found: String(value) }
    expect(findLimitProblem(limit({ burst: size }))).toMatchObject({ ...problem, field: 'burst' })
    const leaky = limit({ algorithm: 'leaky-bucket', queue: size })
    expect(findLimitProblem(leaky)).toMatchObject({ ...problem, field: 'queue' })
  })

  test.each(NO_COUNTS)('wait, maxWait and debt: %s are refused', (value) => {
    const ms = value as number
    const problem = { code: 'limit-number', found: String(value) }
    expect(findLimitProblem(limit({ waitMs: ms }))).toMatchObject({ ...problem, field: 'wait' })
    expect(findLimitProblem(limit({ debt: ms }))).toMatchObject({ ...problem, field: 'debt' })
    const leaky = limit({ algorithm: 'leaky-bucket', maxWaitMs: ms })
    expect(findLimitProblem(leaky)).toMatchObject({ ...problem, field: 'maxWait' })
  })

  test('the bounds themselves are accepted', () => {
    for (const windowMs of [250, 2 ** 31 + 1, YEAR_MS]) {
      for (const algorithm of ALGORITHM_NAMES) {
        if (algorithm === 'concurrency') continue
        expect(findLimitProblem(limit({ algorithm, windowMs })), algorithm).toBeUndefined()
      }
    }
    expect(isAccepted(limit({ algorithm: 'fixed-window', max: MAX_UNITS }))).toBe(true)
    expect(isAccepted(limit({ algorithm: 'fixed-window', max: MAX_UNITS + 1 }))).toBe(false)
    expect(isAccepted(limit({ algorithm: 'sliding-window-log', max: 10_000 }))).toBe(true)
    expect(isAccepted(limit({ algorithm: 'sliding-window-log', max: 10_001 }))).toBe(false)
  })

  test.each(ALGORITHM_NAMES)('%s: max 0 is a limit of capacity 0', (algorithm) => {
    expect(defineLimit(limit({ algorithm, max: 0 }))).toMatchObject({ capacity: 0, borrowable: 0 })
  })
})

describe('an optional field is accepted only by its algorithms', () => {
  const fields = { burst: 5, wait: 5, queue: 5, maxWait: 5, debt: 5 }
  const takers: Record<keyof typeof fields, readonly AlgorithmName[]> = {
    burst: ['token-bucket', 'gcra'],
    wait: ['token-bucket', 'gcra'],
    queue: ['leaky-bucket'],
    maxWait: ['leaky-bucket'],
    debt: ALGORITHM_NAMES.filter((name) => !['leaky-bucket', 'concurrency'].includes(name)),
  }
  const withField = (field: keyof typeof fields) =>
    field === 'wait' || field === 'maxWait' ? { [`${field}Ms`]: 5 } : { [field]: 5 }

  describe.each(Object.keys(fields) as (keyof typeof fields)[])('%s', (field) => {
    test.each(ALGORITHM_NAMES)('with %s', (algorithm) => {
      const problem = findLimitProblem(limit({ algorithm, ...withField(field) }))
      if (takers[field].includes(algorithm)) expect(problem).toBeUndefined()
      else expect(problem).toMatchObject({ code: 'limit-conflict', field })
    })

    test('with max: 0, which refuses every call anyway', () => {
      const [algorithm] = takers[field]
      const spec = limit({ ...withField(field), max: 0, ...(algorithm && { algorithm }) })
      expect(findLimitProblem(spec)).toMatchObject({ field, found: `${field} with max: 0` })
    })
  })
})

describe('a prepared limit', () => {
  test('uses the defaults of its algorithm', () => {
    const sizes = ALGORITHM_NAMES.map((algorithm) => defineLimit(limit({ algorithm })).capacity)
    expect(sizes).toEqual([10, 1, 10, 10, 10, 10, 10])
    expect(defineLimit(limit({ algorithm: 'leaky-bucket' })).maxWaitUs).toBe(1_000_000)
    expect(defineLimit(limit({})).maxWaitUs).toBe(0)
    expect(defineLimit(limit({ windowMs: 90_000 })).name).toBe('token-bucket-90s')
    expect(defineLimit(limit({ name: 'hourly' })).name).toBe('hourly')
    expect(defineLimit(limit({})).onRefusal).toBe('none')
  })

  test.each([
    [300_000, 1000, { p: 3, q: 10, tickUs: 1 }],
    [20_000_000, 30 * DAY_MS, { p: 1, q: 129_600, tickUs: 1 }],
    [1_000_000_000, DAY_MS, { p: 5, q: 432, tickUs: 1 }],
    [7, 1000, { p: 7, q: 1_000_000, tickUs: 1 }],
    [200_003, 30 * DAY_MS, { p: 200_003, q: 2_592_000_000, tickUs: 1000 }],
  ])('%d in %d ms has its rate in lowest terms', (max, windowMs, rate) => {
    expect(defineLimit(limit({ max, windowMs }))).toMatchObject(rate)
  })

  test('lends the units of its wait, rounded up, plus its debt', () => {
    const bucket = limit({ max: 2, windowMs: 3000, burst: 1 })
    expect(defineLimit({ ...bucket, waitMs: 1500 }).borrowable).toBe(1)
    expect(defineLimit({ ...bucket, waitMs: 2000 }).borrowable).toBe(2)
    expect(defineLimit({ ...bucket, waitMs: 2000, debt: 5 }).borrowable).toBe(7)
  })

  test.each(ALGORITHM_NAMES.filter((name) => !['leaky-bucket', 'concurrency'].includes(name)))(
    '%s: may owe one max with onRefusal: overdraw, else nothing, unless it says so',
    (algorithm) => {
      expect(defineLimit(limit({ algorithm })).debt).toBe(0)
      expect(defineLimit(limit({ algorithm, onRefusal: 'overdraw' })).debt).toBe(10)
      expect(defineLimit(limit({ algorithm, debt: 3 })).debt).toBe(3)
      expect(defineLimit(limit({ algorithm, onRefusal: 'overdraw', debt: 0 })).debt).toBe(0)
    },
  )

  test('with its debt has room for all that may be charged, and no wait', () => {
    const bucket = defineLimit(limit({ waitMs: 2000, debt: 5 }))
    const { borrowable } = bucket
    expect(withDebt(bucket)).toMatchObject({ capacity: 15, borrowable: borrowable - 5 })
    const window = defineLimit(limit({ algorithm: 'fixed-window', debt: 5 }))
    expect(withDebt(window)).toMatchObject({ max: 15, borrowable: 0, maxWaitUs: 0 })
  })

  test('without waiting has no wait and keeps its borrowable units', () => {
    const waiting = defineLimit(limit({ waitMs: 2000 }))
    expect(withoutWaiting(waiting)).toEqual({ ...waiting, maxWaitUs: 0 })
    const steady = defineLimit(limit({}))
    expect(withoutWaiting(steady)).toBe(steady)
  })

  test('is refused for a limit that has a problem', () => {
    expect(() => defineLimit(limit({ max: -1 }))).toThrow(
      new RangeError('max: found -1; accepted: a whole number from 0 to 999999999999999'),
    )
  })
})

const windows = fc.oneof(
  fc.constantFrom(250, 1000, 60_000, 3_600_000, DAY_MS, 30 * DAY_MS, YEAR_MS),
  fc.integer({ min: 250, max: YEAR_MS }),
)
const units = fc
  .integer({ min: 0, max: 15 })
  .chain((digits) => fc.integer({ min: 1, max: Math.min(MAX_UNITS, 10 ** digits) }))
const buckets = fc.record(
  {
    algorithm: fc.constantFrom('token-bucket' as const, 'gcra' as const),
    max: units,
    windowMs: windows,
    burst: units,
    waitMs: fc.integer({ min: 0, max: YEAR_MS }),
    debt: units,
  },
  { requiredKeys: ['algorithm', 'max', 'windowMs'] },
)
const queues = fc.record(
  {
    algorithm: fc.constant('leaky-bucket' as const),
    max: units,
    windowMs: windows,
    queue: fc.integer({ min: 1, max: 2 ** 24 - 1 }),
  },
  { requiredKeys: ['algorithm', 'max', 'windowMs'] },
)

describe('numbers beyond 2^53', () => {
  test('no product of an accepted bucket or queue exceeds 2^53', () => {
    const fits = fc.property(fc.oneof(buckets, queues), (spec) => {
      if (!isAccepted(spec)) return
      const { p, q, tickUs, capacity, borrowable, windowUs } = defineLimit(spec)
      expect(BigInt(p) * BigInt(windowUs)).toBe(BigInt(spec.max) * BigInt(q) * BigInt(tickUs))
      const parts = 4n * BigInt(capacity + 1 + borrowable) * BigInt(q)
      const refillUs = (parts * BigInt(tickUs)) / BigInt(p)
      expect(parts).toBeLessThanOrEqual(MAX_INTEGER)
      expect(refillUs).toBeLessThanOrEqual(MAX_INTEGER)
      expect(BigInt(p) * BigInt(tickUs)).toBeLessThanOrEqual(MAX_INTEGER)
    })
    fc.assert(fits, { numRuns: propertyRuns(1000) })
  })

  test('a bucket or a queue is accepted exactly if 4 * burst * q is exact', () => {
    const agrees = fc.property(fc.oneof(buckets, queues), (spec) => {
      const plain = { ...spec, waitMs: undefined, debt: undefined }
      expect(isAccepted(plain)).toBe(isExact(plain))
    })
    fc.assert(agrees, { numRuns: propertyRuns(500) })
  })

  test('the largest burst of a rate is accepted, and one more is not', () => {
    const bucket = limit({ max: 1, windowMs: YEAR_MS })
    expect(isAccepted({ ...bucket, burst: 70 })).toBe(true)
    expect(isAccepted({ ...bucket, burst: 71 })).toBe(false)
    const fast = limit({ max: 1_000_000, windowMs: 1000 })
    expect(isAccepted({ ...fast, burst: MAX_UNITS, debt: MAX_UNITS })).toBe(true)
    expect(isAccepted({ ...fast, max: 999_999, burst: MAX_UNITS })).toBe(false)
  })

  test('the message of a refused limit suggests one that is accepted', () => {
    const offers = fc.property(fc.oneof(buckets, queues), (spec) => {
      const problem = findLimitProblem(spec)
      if (problem === undefined) return
      expect(isAccepted(suggestedLimit(spec, problem.accepted))).toBe(true)
    })
    fc.assert(offers, { numRuns: propertyRuns(500) })
  })

  test.each([
    limit({ max: 999_999_999_999_989, windowMs: DAY_MS }),
    limit({ max: 1_000_003, windowMs: 30 * DAY_MS }),
    limit({ max: 7_654_321, windowMs: YEAR_MS }),
    limit({ algorithm: 'leaky-bucket', max: 2 ** 24 - 1, windowMs: YEAR_MS }),
    limit({ algorithm: 'gcra', max: 12_347, windowMs: YEAR_MS, burst: 1_000_000 }),
    limit({ max: 3, windowMs: YEAR_MS, burst: 5000 }),
  ])('the suggestion for $max in $windowMs ms is the nearest limit', (spec) => {
    const { max } = suggestedLimit(spec, findLimitProblem(spec)?.accepted ?? '')
    const others = Array.from({ length: Math.min(50_000, Math.abs(max - spec.max) - 1) })
    const nearer = others.flatMap((_, off) => [spec.max - off - 1, spec.max + off + 1])
    expect(nearer.filter((other) => other > 0 && isExact({ ...spec, max: other }))).toEqual([])
  })

  test('the message of a queue that is too long by default suggests a shorter one', () => {
    const spec = limit({ algorithm: 'leaky-bucket', max: 2 ** 24, windowMs: 60_000 })
    expect(findLimitProblem(spec)).toMatchObject({ field: 'queue', code: 'limit-too-fine' })
    expect(isAccepted({ ...spec, queue: 2 ** 24 - 1 })).toBe(true)
  })

  test.each([
    limit({ debt: MAX_UNITS, max: 7, windowMs: DAY_MS }),
    limit({ debt: MAX_UNITS, max: 7, windowMs: DAY_MS, burst: 30, waitMs: 60_000 }),
    limit({ debt: MAX_UNITS, max: 999_983, windowMs: YEAR_MS, algorithm: 'gcra' }),
    limit({ debt: 8_965_475_848, max: 999_999_999_999_957, windowMs: 60_000, algorithm: 'gcra' }),
    limit({ debt: MAX_UNITS, algorithm: 'sliding-window-counter' }),
    limit({ debt: MAX_UNITS, algorithm: 'sliding-window-counter', windowMs: YEAR_MS }),
    limit({ debt: 10_000, algorithm: 'sliding-window-log', max: 300 }),
  ])('the largest debt of $algorithm of $max is suggested, and one more is refused', (spec) => {
    const problem = findLimitProblem(spec)
    expect(problem).toMatchObject({ code: 'limit-too-fine', field: 'debt' })
    const { debt = 0 } = suggestedLimit(spec, problem?.accepted ?? '')
    expect(isAccepted({ ...spec, debt })).toBe(true)
    expect(isAccepted({ ...spec, debt: debt + 1 })).toBe(false)
  })

  test('no product of a sliding-window-counter with debt exceeds 2^53', () => {
    const spec = limit({ algorithm: 'sliding-window-counter', max: 1_000_000, windowMs: DAY_MS })
    const { scale, scaledWindow, debt } = defineLimit({ ...spec, debt: 1_000_000_000 })
    expect(scale).toBeGreaterThan(1)
    expect((spec.max + debt) * scaledWindow).toBeLessThanOrEqual(2 ** 52)
  })

  test('the largest max of a sliding-window-counter is accepted, and one more is not', () => {
    const edges = fc.property(windows, (windowMs) => {
      const spec = limit({ algorithm: 'sliding-window-counter', max: MAX_UNITS, windowMs })
      const max = suggestedLimit(spec, findLimitProblem(spec)?.accepted ?? '').max
      expect(isAccepted({ ...spec, max })).toBe(true)
      expect(isAccepted({ ...spec, max: max + 1 })).toBe(false)
      const { scale, scaledWindow, windowUs } = defineLimit({ ...spec, max })
      expect(scaledWindow).toBe(Math.floor(windowUs / scale))
      expect(max * scaledWindow).toBeLessThanOrEqual(2 ** 52)
      expect(scale === 1 || scaledWindow >= 2 ** 21).toBe(true)
    })
    fc.assert(edges, { numRuns: propertyRuns(500) })
  })
})

/** Whether 4 * burst * q and its refill time are exact in microseconds or in milliseconds. */
function isExact({ algorithm, max, windowMs, burst, queue }: LimitSpec): boolean {
  const held = burst ?? queue ?? (algorithm === 'gcra' ? 1 : max)
  if (max > MAX_UNITS || (algorithm === 'leaky-bucket' && held >= 2 ** 24)) return false
  return [1n, 1000n].some((tickUs) => {
    const window = (BigInt(windowMs) * 1000n) / tickUs
    let [divisor, rest] = [BigInt(max), window]
    while (rest !== 0n) [divisor, rest] = [rest, divisor % rest]
    const parts = (4n * BigInt(held + 1) * window) / divisor
    const p = BigInt(max) / divisor
    const timeUs = ((parts + p - 1n) / p) * tickUs
    return [parts, timeUs, p * tickUs].every((number) => number <= BigInt(MAX_INTEGER))
  })
}

/** Returns the limit that a message suggests instead. */
function suggestedLimit(spec: LimitSpec, accepted: string): LimitSpec {
  const max =
    /^the nearest that is exact: (\d+)\//.exec(accepted) ?? /^max: 0 to (\d+)/.exec(accepted)
  if (max !== null) return { ...spec, max: Number(max[1]) }
  const debt = /^debt: 0 to (\d+) /.exec(accepted)
  if (debt !== null) return { ...spec, debt: Number(debt[1]) }
  const queue = /^queue: 1 to (\d+)/.exec(accepted)
  if (queue !== null) return { ...limit({ algorithm: 'leaky-bucket' }), queue: Number(queue[1]) }
  const burst = /^1 to (\d+) at this rate/.exec(accepted)
  return { ...limit({}), max: spec.max, windowMs: spec.windowMs, burst: Number(burst?.[1]) }
}

describe('the name of a limit', () => {
  const calendar = (spec: Partial<LimitSpec>) =>
    limit({ algorithm: 'fixed-window', windowMs: 31 * DAY_MS, window: 'month', ...spec })

  test.each([
    [limit({}), 'token-bucket-1s'],
    [limit({ name: 'own' }), 'own'],
    [calendar({}), 'fixed-window-month'],
    [calendar({ zone: 'UTC' }), 'fixed-window-month'],
    [calendar({ zone: 'America/New_York' }), 'fixed-window-month-america-new-york'],
    [calendar({ zone: 'Etc/GMT+5', window: 'day' }), 'fixed-window-day-etc-gmt-plus-5'],
    [calendar({ zone: 'Etc/GMT-5', window: 'week' }), 'fixed-window-week-etc-gmt-5'],
    [calendar({ zone: 'Europe/Berlin', name: 'budget' }), 'budget'],
  ])('of %j is %s', (spec, name) => {
    expect(defineLimit(spec).name).toBe(name)
  })

  test('is accepted as a name of a limit, for every zone', () => {
    for (const zone of Intl.supportedValuesOf('timeZone')) {
      expect(defineLimit(calendar({ zone })).name).toMatch(/^[a-z0-9-]{1,64}$/)
    }
  })
})

describe('the limit of an adapter that counts', () => {
  test.each([1, 249, YEAR_MS])('a window of %i ms begins with the first call', (windowMs) => {
    const hits = counterLimit({ windowMs, name: 'hits' })
    expect(hits).toMatchObject({ windowUs: windowMs * 1000, name: 'hits', max: MAX_UNITS })
    const window = algorithmOf(hits)
    const first = window.take(undefined, hits, 1, 5_000_123)
    expect(first).toMatchObject({ remaining: MAX_UNITS - 1, resetAfterMs: windowMs })
    expect(window.take(first.state, hits, 1, 5_000_122 + hits.windowUs).remaining).toBe(
      MAX_UNITS - 2,
    )
    expect(window.take(first.state, hits, 1, 5_000_123 + hits.windowUs).remaining).toBe(
      MAX_UNITS - 1,
    )
  })

  test.each([0, -1, 0.5, YEAR_MS + 1, Number.NaN])('a window of %s ms is refused', (windowMs) => {
    expect(() => counterLimit({ windowMs })).toThrow('accepted: a duration from 1ms to 366d')
  })

  test('every algorithm with a window of any length counts in one of 1 ms', () => {
    for (const choice of Object.values(MODULE_CHOICES)) {
      if (choice.algorithm === 'concurrency' || choice.window !== undefined) continue
      const short = defineAdapterLimit({ ...choice, max: 1, windowMs: 1 })
      const window = algorithmOf(short)
      const { state, granted } = window.take(undefined, short, 1, 5_000_000)
      expect(granted).toBe(1)
      expect(window.take(state, short, 1, 5_002_000).retryAfterMs).toBe(0)
    }
  })

  test('a rule keeps windows from 250 ms on', () => {
    const window = limit({ algorithm: 'fixed-window', start: 'call', windowMs: 249 })
    expect(findLimitProblem(window)).toMatchObject({ code: 'limit-window' })
  })
})
