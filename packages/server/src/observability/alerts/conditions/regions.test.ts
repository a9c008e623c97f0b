import type { RegionStats } from '@sluice/limiter'
import { describe, expect, test } from 'vitest'
import { RegionClocks, RegionOverage, RegionSilence } from './regions.js'

const WELL: RegionStats = {
  region: 'us-east',
  fates: { sent: 10, unknown: 0, dropped: 0 },
  pending: 0,
  lagMs: 90,
  isAnswering: true,
  ageMs: 400,
  heartbeat: undefined,
  clock: { offsetSeconds: 0.01, errorSeconds: 0.04 },
}

describe('region-unreachable', () => {
  test('is not found while a region confirms reports and is heard of', () => {
    expect(new RegionSilence().evaluate([WELL])).toEqual([])
  })

  test('is found once reports wait for more than five seconds', () => {
    const silence = new RegionSilence()
    const at = (lagMs: number) =>
      silence.evaluate([{ ...WELL, lagMs, pending: 12, isAnswering: lagMs < 5000 }])
    expect(at(100)).toEqual([])
    expect(at(5000)).toEqual([])
    expect(at(6200)).toEqual([
      {
        subject: 'us-east',
        summary:
          'Region us-east has not confirmed what callers spent here for 6.2 s: merged limits hold in each region by itself.',
        past: 'Region us-east had not confirmed what callers spent here for 6.2 s: merged limits hold in each region by itself.',
        details: { region: 'us-east', lagMs: 6200, silentMs: 400, pending: 12, answers: 'no' },
      },
    ])
  })

  test('is found once a region is not heard of for more than five seconds', () => {
    const [finding] = new RegionSilence().evaluate([{ ...WELL, ageMs: 9000, lagMs: 0 }])
    expect(finding?.summary).toContain('Region us-east is silent for 9 s: ')
  })

  test('is not found for a region that was never there, such as one that is being added', () => {
    const silence = new RegionSilence()
    const missing = { ...WELL, isAnswering: false, ageMs: undefined, lagMs: 90_000 }
    expect(silence.evaluate([missing])).toEqual([])
    silence.evaluate([WELL])
    expect(silence.evaluate([missing])).toHaveLength(1)
  })
})

describe('region-overage', () => {
  test('is found while regions admit more than a tenth beyond limits in several seconds of a minute', () => {
    const overage = new RegionOverage()
    for (const share of [0.1, 0.3, 0.2]) expect(overage.evaluate(share)).toEqual([])
    expect(overage.evaluate(0.125)).toEqual([
      {
        subject: 'regions',
        summary:
          'Regions together have admitted up to 30% beyond merged limits, in 3 of the last 60 s.',
        past: 'Regions together had admitted up to 30% beyond merged limits, in 3 of the last 60 s.',
        details: { percent: 30, seconds: 3 },
      },
    ])
    for (let i = 0; i < 57; i++) expect(overage.evaluate(0)).toHaveLength(1)
    expect(overage.evaluate(0)).toEqual([])
  })
})

describe('region-clocks', () => {
  const off = (offsetSeconds: number, errorSeconds = 0.04) => ({
    ...WELL,
    clock: { offsetSeconds, errorSeconds },
  })

  test('is found when clocks differ by more than 50 ms beyond what is known, for three seconds', () => {
    const clocks = new RegionClocks()
    expect(clocks.evaluate([off(-0.12)])).toEqual([])
    expect(clocks.evaluate([off(-0.12)])).toEqual([])
    expect(clocks.evaluate([off(-0.12)])).toMatchObject([
      {
        subject: 'us-east',
        summary:
          'The clock of the store of region us-east is 120 ms behind that of this region, known to 40 ms: units near the edge of a window may count in neither.',
        details: { region: 'us-east', offsetMs: -120, errorMs: 40 },
      },
    ])
    expect(clocks.evaluate([off(0.01)])).toEqual([])
    expect(clocks.evaluate([off(0.12)])).toEqual([])
  })

  test('is not found within half a round trip, or while a clock is not known', () => {
    const clocks = new RegionClocks()
    for (let i = 0; i < 5; i++) {
      expect(clocks.evaluate([off(0.08), { ...WELL, region: 'x', clock: undefined }])).toEqual([])
    }
  })
})
