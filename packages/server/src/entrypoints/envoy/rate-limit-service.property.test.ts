/** Random requests against an oracle that keeps plain counts. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { propertyRuns } from '../../../../../tools/property-runs.js'
import type {
  Descriptor,
  DescriptorStatus,
  RateLimitRequest,
  RateLimitResponse,
} from './rate-limit-messages.js'
import { openService } from './rate-limit-service.test-helper.js'
import type { Counting } from './service-options.js'

const LIMITS = { a: 3, b: 7, c: 0, d: 50 } as const
type Key = keyof typeof LIMITS

const CONFIG = [
  {
    domain: 'd',
    descriptors: Object.entries(LIMITS).map(([key, requests_per_unit]) => ({
      key,
      rate_limit: { unit: 'hour', requests_per_unit },
    })),
  },
]

interface Asked {
  readonly key: Key
  readonly value: string
  readonly hits: number | undefined
  readonly isNegative: boolean
}

interface Step {
  readonly asked: readonly Asked[]
  readonly hits: number
  readonly waitMs: number
}

const any = fc.record({
  key: fc.constantFrom<Key[]>('a', 'b', 'c', 'd'),
  value: fc.constantFrom('x', 'y'),
  hits: fc.option(fc.integer({ min: 0, max: 9 }), { nil: undefined, freq: 2 }),
  isNegative: fc.integer({ min: 0, max: 5 }).map((one) => one === 0),
})
const ordinary = any.map((each) => ({ ...each, hits: undefined, isNegative: false }))

const stepsOf = (asked: fc.Arbitrary<Asked>): fc.Arbitrary<readonly Step[]> =>
  fc.array(
    fc.record({
      asked: fc.array(asked, { minLength: 1, maxLength: 5 }),
      hits: fc.integer({ min: 0, max: 4 }),
      waitMs: fc.constantFrom(0, 0, 0, 600_000),
    }),
    { minLength: 1, maxLength: 25 },
  )

const limitOf = ({ key }: Asked): number => LIMITS[key]
const nameOf = ({ key, value }: Asked): string => `${key}=${value}`
const unitsOf = ({ hits }: Asked, step: Step): number => hits ?? (step.hits === 0 ? 1 : step.hits)

function requestOf(step: Step): RateLimitRequest {
  const descriptors = step.asked.map(
    ({ key, value, hits, isNegative }): Descriptor => ({
      entries: [{ key, value }],
      limit: undefined,
      hitsAddend: hits,
      isNegativeHits: isNegative,
    }),
  )
  return { domain: 'd', descriptors, hitsAddend: step.hits }
}

/** The counts of the present hour. */
class Counts {
  readonly #counts = new Map<string, number>()
  #hour = 0

  begin(us: number): void {
    const hour = Math.floor(us / 3_600_000_000)
    if (hour !== this.#hour) this.#counts.clear()
    this.#hour = hour
  }

  get(each: Asked): number {
    return this.#counts.get(nameOf(each)) ?? 0
  }

  add(each: Asked, units: number): void {
    // A limit of 0 counts nothing.
    if (limitOf(each) > 0) this.#counts.set(nameOf(each), Math.max(0, this.get(each) + units))
  }
}

const brief = ({ code, limitRemaining }: DescriptorStatus): string =>
  `${code === 'ok' ? 'OK' : 'OVER'} ${limitRemaining}`

/** What envoyproxy/ratelimit answers, except that returns come first. */
function referenceAnswer(step: Step, counts: Counts): readonly string[] {
  const isReturn = (each: Asked) => each.isNegative && unitsOf(each, step) > 0
  for (const each of step.asked) if (isReturn(each)) counts.add(each, -unitsOf(each, step))
  const returned = step.asked.map((each) => Math.max(0, limitOf(each) - counts.get(each)))
  return step.asked.map((each, i) => {
    if (isReturn(each)) return `OK ${returned[i] ?? 0}`
    counts.add(each, unitsOf(each, step))
    const left = limitOf(each) - counts.get(each)
    const isOver = left < 0 || limitOf(each) === 0
    return `${isOver ? 'OVER' : 'OK'} ${Math.max(0, left)}`
  })
}

async function run(
  steps: readonly Step[],
  counting: Counting,
  compare: (step: Step, answer: RateLimitResponse, counts: Counts) => void,
): Promise<void> {
  const domains = new Map([['d', { counting }]])
  const { service, clock, close } = await openService({ config: CONFIG, domains })
  const counts = new Counts()
  for (const step of steps) {
    clock.advance(step.waitMs)
    counts.begin(clock.now())
    const answer = await service.shouldRateLimit(requestOf(step), { timeoutMs: undefined })
    compare(step, answer, counts)
  }
  await close()
}

test('counting like the reference, every status equals that of plain counts', async () => {
  await fc.assert(
    fc.asyncProperty(stepsOf(any), (steps) =>
      run(steps, 'reference', (step, { statuses }, counts) =>
        expect(statuses.map(brief)).toEqual(referenceAnswer(step, counts)),
      ),
    ),
    { numRuns: propertyRuns(500) },
  )
})

test('all or nothing: a request is admitted if all of it fits, and only that is charged', async () => {
  await fc.assert(
    fc.asyncProperty(stepsOf(ordinary), (steps) =>
      run(steps, 'all-or-nothing', (step, { overallCode, statuses }, counts) => {
        const before = new Map(step.asked.map((each) => [nameOf(each), counts.get(each)]))
        const sums = new Map<string, number>()
        const left = step.asked.map((each) => {
          const sum = (sums.get(nameOf(each)) ?? 0) + unitsOf(each, step)
          sums.set(nameOf(each), sum)
          return limitOf(each) - (before.get(nameOf(each)) ?? 0) - sum
        })
        const fits = left.every((units) => units >= 0)
        expect(overallCode).toBe(fits ? 'ok' : 'over-limit')
        if (fits) for (const each of step.asked) counts.add(each, unitsOf(each, step))
        const expected = step.asked.map((each, i) => {
          if (fits) return `OK ${left[i]}`
          const present = Math.max(0, limitOf(each) - counts.get(each))
          return `${(left[i] ?? 0) >= 0 ? 'OK' : 'OVER'} ${present}`
        })
        expect(statuses.map(brief)).toEqual(expected)
      }),
    ),
    { numRuns: propertyRuns(500) },
  )
})

test('whatever else a request has, no counter admits more ordinary hits than its limit', async () => {
  await fc.assert(
    fc.asyncProperty(stepsOf(any), (steps) =>
      run(steps, 'all-or-nothing', (step, { overallCode }, counts) => {
        for (const each of step.asked) {
          if (each.isNegative) counts.add(each, -unitsOf(each, step))
        }
        for (const each of step.asked) {
          const isAdmitted = each.hits === undefined && !each.isNegative && overallCode === 'ok'
          if (isAdmitted) counts.add(each, unitsOf(each, step))
          expect(counts.get(each)).toBeLessThanOrEqual(limitOf(each))
        }
      }),
    ),
    { numRuns: propertyRuns(500) },
  )
})
