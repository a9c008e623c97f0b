/** Random proxies, calls, reports, delays and lost streams against what the limit admits. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import { type OpenQuotas, openQuotas, type TestProxy } from './quotas.test-helper.js'

const MAX = 60
const BUCKETS = [{ user: 'a' }, { user: 'b' }] as const
/** One counter for all calls, and one for each user. */
const RULES = [
  { id: 'all', by: [], limits: [{ algorithm: 'fixed-window', max: MAX, window: '1h' }] },
  { id: 'user', by: ['user'], limits: [{ algorithm: 'fixed-window', max: 40, window: '1h' }] },
]

type Step =
  | {
      readonly kind: 'call'
      readonly proxy: number
      readonly bucket: number
      readonly count: number
    }
  | { readonly kind: 'report' | 'disconnect'; readonly proxy: number }
  | { readonly kind: 'wait'; readonly ms: number }

const proxy = fc.nat({ max: 2 })
const call = fc.record({
  kind: fc.constant('call' as const),
  proxy,
  bucket: fc.nat({ max: 1 }),
  count: fc.integer({ min: 1, max: 20 }),
})
const report = fc.record({ kind: fc.constant('report' as const), proxy })
const disconnect = fc.record({ kind: fc.constant('disconnect' as const), proxy })
const wait = (most: number) =>
  fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: most }) })

async function run(
  quotas: OpenQuotas,
  proxies: readonly TestProxy[],
  steps: readonly Step[],
): Promise<void> {
  for (const step of steps) {
    if (step.kind === 'wait') {
      await quotas.scheduler.advance(step.ms)
      continue
    }
    const each = proxies[step.proxy]
    if (each === undefined) continue
    if (step.kind === 'call') each.calls(BUCKETS[step.bucket] ?? BUCKETS[0], step.count)
    else if (step.kind === 'report') {
      if (!each.isConnected) each.connect()
      each.report()
    } else each.disconnect()
    await quotas.scheduler.advance(0)
    expect(allowedBy(proxies)).toBeLessThanOrEqual(MAX)
  }
}

function allowedBy(proxies: readonly TestProxy[]): number {
  return proxies.reduce((sum, { allowedAtMs }) => sum + allowedAtMs.length, 0)
}

function expectConserved({ metric }: OpenQuotas): void {
  const fate = (name: string) => metric(`leased_calls_total{fate="${name}"}`)
  expect(fate('spent') + fate('returned') + fate('lost') + metric('held_calls')).toBe(fate('drawn'))
}

/** What is left of the counter of all calls. */
async function leftOf({ limiter }: OpenQuotas): Promise<number | null> {
  const { remaining } = await limiter.peek({ attributes: { domain: 'shop' } })
  return remaining
}

test('what proxies admit by leases is never above a limit, whatever is delayed or lost', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(call, call, report, report, disconnect, wait(700)), { maxLength: 40 }),
      fc.integer({ min: 0, max: 400 }),
      async (steps, delayMs) => {
        const quotas = await openQuotas({ rules: RULES })
        const options = { fallback: 'deny', delayMs } as const
        const proxies = [0, 1, 2].map(() => quotas.connect(options))
        await run(quotas, proxies, steps)
        await quotas.scheduler.advance(2000)
        expectConserved(quotas)
        expect(quotas.errors).toEqual([])
        await quotas.close()
      },
    ),
    { numRuns: propertyRuns(60) },
  )
}, 120_000)

test('when all proxies are idle, exactly what they admitted is charged', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(call, call, report, report, wait(3000)), { maxLength: 40 }),
      async (steps) => {
        const quotas = await openQuotas({ rules: RULES })
        const proxies = [0, 1, 2].map(() => quotas.connect({ fallback: 'deny' }))
        await run(quotas, proxies, steps)
        for (let second = 0; second < 20; second++) {
          for (const each of proxies) each.report()
          await quotas.scheduler.advance(1000)
          expectConserved(quotas)
        }
        expect(quotas.metric('held_calls')).toBe(0)
        expect(await leftOf(quotas)).toBe(MAX - allowedBy(proxies))
        await quotas.close()
      },
    ),
    { numRuns: propertyRuns(60) },
  )
}, 120_000)
