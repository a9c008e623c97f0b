import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findExhaustedCallers } from './caller-exhausted.js'
import { RULES_MAX } from './recent-counts.js'
import { CallerAnomalies, RefusalAnomalies, SampleTimes } from './anomaly.js'
import { Baseline } from './baseline.js'

const HOUR_MS = 3_600_000
const HOUR = 360
const MINUTE = 6

/** A rule with the given number of refusals in each sample. */
function ruleOf(baselineMs = HOUR_MS) {
  const unusual = new RefusalAnomalies(baselineMs)
  let refused = 0
  unusual.observe('a', { refused }, 'begin')
  /** How many of these samples are an anomaly. */
  const see = (looks: number, refusedIn: number | ((sample: number) => number)) => {
    let found = 0
    for (let sample = 0; sample < looks; sample++) {
      refused += typeof refusedIn === 'number' ? refusedIn : refusedIn(sample)
      unusual.observe('a', { refused }, 10_000)
      found += unusual.findings().length
    }
    return found
  }
  return { unusual, see }
}

describe('refusals', () => {
  test('five times the baseline are an anomaly within half a minute, which then ends', () => {
    const { unusual, see } = ruleOf()
    expect(see(HOUR, 100)).toBe(0)
    expect(see(1, 600)).toBe(0)
    expect(see(2, 600)).toBe(1)
    expect(unusual.findings((rule) => `GET /${rule}`)).toMatchObject([
      { subject: 'a', details: { rule: 'a', perSecond: 60, lastRefusedCall: 'GET /a' } },
    ])
    expect(unusual.isAnomalous('a')).toBe(true)
    expect(see(MINUTE, 100)).toBeLessThan(3)
    expect(unusual.isAnomalous('a')).toBe(false)
    expect(see(HOUR, 100)).toBe(0)
  })

  test('four times the baseline are no anomaly', () => {
    const { see } = ruleOf()
    see(HOUR, 100)
    expect(see(10 * MINUTE, 400)).toBe(0)
  })

  test('a burst of ten seconds is no anomaly unless its half-minute mean is', () => {
    const { see } = ruleOf()
    see(HOUR, 100)
    expect(see(1, 1200)).toBe(0)
    expect(see(MINUTE, 100)).toBe(0)
  })

  test('ten in ten seconds are no anomaly with a baseline of 0', () => {
    const { see } = ruleOf()
    see(HOUR, 0)
    expect(see(MINUTE, 10)).toBe(0)
    expect(see(3, 40)).toBeGreaterThan(0)
  })

  test('in regular bursts are no anomaly', () => {
    const { see } = ruleOf()
    expect(see(8 * HOUR, (sample) => (sample % 6 === 0 ? 300 : 0))).toBe(0)
  })

  test('that follow the time of day are no anomaly', () => {
    const { see } = ruleOf()
    const day = 24 * HOUR
    const wave = (sample: number) => Math.round(500 - 450 * Math.cos((2 * Math.PI * sample) / day))
    expect(see(2 * day, wave)).toBe(0)
  })

  test('an attack of an hour is not learnt, and its second wave is an anomaly again', () => {
    const { see, unusual } = ruleOf()
    see(2 * HOUR, 20)
    expect(see(HOUR, 5000)).toBeGreaterThan(HOUR - 5)
    see(10 * MINUTE, 20)
    expect(unusual.isAnomalous('a')).toBe(false)
    expect(see(5, 5000)).toBeGreaterThan(0)
  })

  test('a permanent change becomes the baseline', () => {
    const { see, unusual } = ruleOf()
    see(2 * HOUR, 20)
    see(12 * HOUR, 5000)
    expect(unusual.isAnomalous('a')).toBe(false)
  })

  test('of a rule that always refuses much raise no alert after a restart', () => {
    const { see } = ruleOf()
    expect(see(2 * HOUR, 9000)).toBe(0)
  })

  test('a longer sample is scaled to ten seconds', () => {
    const unusual = new RefusalAnomalies(60_000)
    unusual.observe('a', { refused: 0 }, 'begin')
    for (let sample = 1; sample <= 30; sample++) {
      unusual.observe('a', { refused: 100 * sample }, 10_000)
    }
    for (let sample = 1; sample <= 3; sample++) {
      unusual.observe('a', { refused: 3000 + 600 * sample }, 60_000)
    }
    expect(unusual.findings()).toEqual([])
  })

  test('of rules beyond the bound are ignored', () => {
    const unusual = new RefusalAnomalies(HOUR_MS)
    for (let i = 0; i < RULES_MAX + 5; i++) {
      unusual.observe(`r${i}`, { refused: 0 }, 'begin')
    }
    for (let sample = 1; sample < 5; sample++) {
      unusual.observe(`r${RULES_MAX + 1}`, { refused: sample * 9000 }, 10_000)
    }
    expect(unusual.findings()).toEqual([])
  })
})

describe('callers', () => {
  const seeing = (unusual: CallerAnomalies, looks: number, callers: number) => {
    for (let sample = 0; sample < looks; sample++) unusual.observe('a', callers)
  }
  const never = () => false

  test('far above the baseline are found while refusals are normal', () => {
    const unusual = new CallerAnomalies(HOUR_MS)
    seeing(unusual, HOUR, 200)
    expect(unusual.findings(never)).toEqual([])
    seeing(unusual, 3, 20_000)
    expect(unusual.findings(never)).toMatchObject([
      { subject: 'a', details: { rule: 'a', callers: 20_000 } },
    ])
    expect(unusual.findings((rule) => rule === 'a')).toEqual([])
    seeing(unusual, 3, 200)
    expect(unusual.findings(never)).toEqual([])
  })

  test('slightly above the baseline, or few in number, are no anomaly', () => {
    const unusual = new CallerAnomalies(HOUR_MS)
    seeing(unusual, HOUR, 1)
    seeing(unusual, 10, 99)
    expect(unusual.findings(never)).toEqual([])
  })

  test('of the first five minutes are not learnt', () => {
    const unusual = new CallerAnomalies(HOUR_MS)
    for (let sample = 1; sample <= 30; sample++) unusual.observe('a', sample * 1000)
    seeing(unusual, HOUR, 30_000)
    expect(unusual.findings(never)).toEqual([])
  })
})

test('a sample is due after ten seconds, and discarded if the clock was set', () => {
  const times = new SampleTimes()
  expect([0, 5000, 9999, 10_000, 15_000, 21_000].map((ms) => times.tick(ms))).toEqual([
    'begin',
    undefined,
    undefined,
    10_000,
    undefined,
    11_000,
  ])
  expect([20_000, 29_999, 30_000].map((ms) => times.tick(ms))).toEqual(['begin', undefined, 10_000])
  expect(times.tick(100_000)).toBe('begin')
})

test('the mean lies within the range of the samples', () => {
  const values = fc.array(fc.integer({ min: 0, max: 1_000_000 }), { minLength: 1, maxLength: 200 })
  const options = { baselineMs: 60_000, least: 10 }
  fc.assert(
    fc.property(values, (seen) => {
      const usual = new Baseline()
      for (const value of seen) usual.observe(value, options)
      expect(usual.mean).toBeGreaterThanOrEqual(0)
      expect(usual.mean).toBeLessThanOrEqual(Math.max(...seen) + 1e-6)
    }),
  )
})

test('an exhausted caller is reported by its hash, with values only in the details', () => {
  const nowMs = Date.UTC(2026, 0, 1)
  const rest = { isEverybody: false, lastRefusedCall: 'POST /v1/login' }
  const caller = { user: 'u\n1', ip: '192.0.2.1' }
  const callers = [
    { rule: 'b', hash: 'h2', caller: { user: 'u2' }, ...rest, sinceMs: nowMs - 90_000 },
    { rule: 'a', hash: 'h1', caller, ...rest, sinceMs: nowMs - 360_000 },
  ]
  expect(findExhaustedCallers(callers, nowMs)).toEqual([
    {
      subject: 'a/h1',
      summary: 'Caller h1 of rule "a" has had nothing left for 6 min.',
      past: 'Caller h1 of rule "a" had nothing left for 6 min.',
      details: {
        rule: 'a',
        hash: 'h1',
        zeroSince: '2025-12-31T23:54:00.000Z',
        caller: ['user=u\\u000a1', 'ip=192.0.2.1'],
        lastRefusedCall: 'POST /v1/login',
      },
    },
    expect.objectContaining({
      subject: 'b/h2',
      summary: 'Caller h2 of rule "b" has had nothing left for 90 s.',
    }),
  ])
})

test('a rule without by names no caller', () => {
  const nowMs = Date.UTC(2026, 0, 1)
  const everybody = { rule: 'a', hash: 'h1', caller: {}, isEverybody: true, lastRefusedCall: null }
  expect(findExhaustedCallers([{ ...everybody, sinceMs: nowMs - 90_000 }], nowMs)).toMatchObject([
    {
      subject: 'a/h1',
      summary: 'Everybody together of rule "a" has had nothing left for 90 s.',
      past: 'Everybody together of rule "a" had nothing left for 90 s.',
    },
  ])
})
