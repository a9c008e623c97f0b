import { describe, expect, test } from 'vitest'
import { Availability, DegradedShares } from './degraded.js'
import { RecentCounts, RULES_MAX } from './recent-counts.js'

describe('a rule', () => {
  function setUp() {
    const shares = new DegradedShares()
    const counts = new Map<string, { decisions: number; degraded: number }>()
    const decide = (rule: string, decisions: number, degraded: number) => {
      const before = counts.get(rule) ?? { decisions: 0, degraded: 0 }
      counts.set(rule, {
        decisions: before.decisions + decisions,
        degraded: before.degraded + degraded,
      })
    }
    const tick = () => {
      shares.nextSecond()
      for (const [rule, { decisions, degraded }] of counts) shares.saw(rule, decisions, degraded)
      return shares.findings().map(({ subject }) => subject)
    }
    return { shares, decide, tick }
  }

  test('with one decision in a thousand by posture is fine, and with one more is not', () => {
    const { shares, decide, tick } = setUp()
    decide('a', 1000, 1)
    decide('b', 500, 0)
    expect(tick()).toEqual([])
    decide('a', 1, 1)
    expect(tick()).toEqual(['a'])
    expect(shares.findings()).toEqual([
      {
        subject: 'a',
        summary:
          'Rule "a" made 0.199 % of its decisions of the last 10 s by its posture, because the store did not answer.',
        details: { rule: 'a', decisions: 1001, degraded: 2 },
      },
    ])
  })

  test('is judged by its last ten seconds', () => {
    const { decide, tick } = setUp()
    decide('a', 1, 1)
    for (let i = 0; i < 10; i++) expect(tick()).toEqual(['a'])
    expect(tick()).toEqual([])
    decide('a', 10_000, 0)
    decide('a', 11, 11)
    expect(tick()).toEqual(['a'])
  })

  test('that was seldom wrong among many decisions is fine, whenever it began', () => {
    const { decide, tick } = setUp()
    for (let i = 0; i < 9; i++) {
      decide('a', 1000, 0)
      tick()
    }
    decide('a', 5, 5)
    expect(tick()).toEqual([])
  })
})

describe('all decisions together', () => {
  test('are too often by posture above one in ten thousand over five minutes', () => {
    const availability = new Availability()
    for (let second = 1; second < 300; second++) {
      expect(availability.tick(second * 100, 0)).toEqual([])
    }
    expect(availability.tick(30_000, 3)).toEqual([])
    expect(availability.tick(30_100, 4)).toMatchObject([
      { subject: '', details: { decisions: 30_000, degraded: 4 } },
    ])
  })

  test('of fewer than a thousand nothing is said', () => {
    const availability = new Availability()
    expect(availability.tick(999, 999)).toEqual([])
    expect(availability.tick(1000, 999)).toMatchObject([
      { details: { decisions: 1000, degraded: 999 } },
    ])
  })

  test('are fine again when five good minutes have passed', () => {
    const availability = new Availability()
    availability.tick(1000, 1000)
    for (let second = 2; second <= 300; second++) {
      expect(availability.tick(1000 * second, 1000)).toHaveLength(1)
    }
    expect(availability.tick(301_000, 1000)).toEqual([])
  })

  test('a share below 100 % is never shown as 100 %', () => {
    const availability = new Availability()
    const [finding] = availability.tick(9_999_999, 1001)
    expect(finding?.summary).toContain('99.989 % of all decisions')
  })
})

test('rules beyond the bound are not watched, and those before it stay', () => {
  const counts = new RecentCounts(1)
  for (let i = 0; i < RULES_MAX + 10; i++) counts.turn(`r${i}`, 5)
  expect(counts.turn(`r${RULES_MAX + 1}`, 7)).toBe(0)
  counts.nextSecond()
  expect(counts.turn('r0', 7)).toBe(2)
  counts.nextSecond()
  expect(counts.turn('r0', 8)).toBe(1)
  expect(counts.turn('r0', 8)).toBe(1)
  expect(counts.turn(`r${RULES_MAX + 1}`, 9)).toBe(0)
})
