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
    /** Returns whether any rule is over its bounds at the last of these seconds. */
    const tick = (seconds = 1, before: () => void = () => {}) => {
      for (let i = 0; i < seconds; i++) {
        before()
        shares.nextSecond()
        for (const [rule, { decisions, degraded }] of counts) {
          shares.record(rule, decisions, degraded)
        }
        found = shares.findings()
      }
      return shares.hasImpact
    }
    let found: ReturnType<DegradedShares['findings']> = []
    return { shares, decide, tick, found: () => found.map(({ subject }) => subject) }
  }

  test('exceeds its bounds with ten decisions by posture in ten seconds, and not with nine', () => {
    const { decide, tick } = setUp()
    decide('a', 9, 9)
    expect(tick()).toBe(false)
    decide('a', 1, 1)
    expect(tick()).toBe(true)
  })

  test('exceeds its bounds above one decision in a thousand, and not at that', () => {
    const { decide, tick } = setUp()
    decide('a', 20_000, 20)
    decide('b', 500, 0)
    expect(tick()).toBe(false)
    decide('a', 1, 1)
    expect(tick()).toBe(true)
  })

  test('raises no alert for a single late decision, however few others there were', () => {
    for (const decisions of [1, 2, 100, 10_000]) {
      const { decide, tick, found } = setUp()
      decide('a', decisions, 1)
      tick()
      for (let i = 0; i < 1000; i++) expect([tick(), found()]).toEqual([false, []])
    }
  })

  test('raises an alert at the fourth consecutive tick, so that a cause is reported first', () => {
    const { shares, decide, tick, found } = setUp()
    decide('a', 1001, 20)
    tick(3)
    expect([shares.hasImpact, found()]).toEqual([true, []])
    tick()
    expect(found()).toEqual(['a'])
    expect(shares.findings()).toEqual([
      {
        subject: 'a',
        summary:
          'Rule "a" made 1.998 % of its decisions of the last 10 s by its posture, because the store did not answer.',
        details: { rule: 'a', decisions: 1001, degraded: 20 },
      },
    ])
  })

  test('is judged by its last ten seconds while it decides often', () => {
    const { decide, tick } = setUp()
    decide('a', 10_000, 0)
    tick(100)
    decide('a', 10, 10)
    for (let i = 0; i < 10; i++) expect(tick()).toBe(true)
    expect(tick()).toBe(false)
    decide('a', 10_000, 0)
    decide('a', 11, 11)
    expect(tick()).toBe(true)
  })

  test('raises no alert for rare decisions by posture among many', () => {
    const { decide, tick } = setUp()
    for (let i = 0; i < 9; i++) {
      decide('a', 10_000, 0)
      tick()
    }
    decide('a', 50, 50)
    expect(tick()).toBe(false)
  })

  test('is found at its third decision by posture if it decides once a minute', () => {
    const { decide, tick, found } = setUp()
    const minute = () => {
      decide('a', 1, 1)
      tick(60)
      return found()
    }
    expect([minute(), minute(), minute()]).toEqual([[], [], ['a']])
  })

  test('is found at its third decision by posture if it decides every five minutes', () => {
    const { decide, tick, found } = setUp()
    for (let call = 1; call <= 3; call++) {
      decide('a', 1, 1)
      tick(290)
      expect(found()).toEqual(call < 3 ? [] : ['a'])
    }
  })

  test('is found if a few of its decisions are by posture again and again', () => {
    for (const [everySeconds, isFound] of [
      [10, true],
      [60, false],
    ] as const) {
      const { decide, tick, found } = setUp()
      let seconds = 0
      tick(900, () => decide('a', 3, ++seconds % everySeconds === 0 ? 1 : 0))
      expect(found()).toEqual(isFound ? ['a'] : [])
      tick(360, () => decide('a', 3, 0))
      expect(found()).toEqual([])
    }
  })

  test('raises an alert above a tenth of decisions by posture if it decides rarely', () => {
    const { decide, tick } = setUp()
    for (let minute = 0; minute < 3; minute++) {
      decide('a', 10, 1)
      tick(60)
    }
    expect(tick()).toBe(false)
    decide('a', 1, 1)
    expect(tick()).toBe(true)
  })

  test('raises no alert for several late decisions in one pause if it decides rarely', () => {
    const { decide, tick } = setUp()
    decide('a', 5, 5)
    for (let second = 0; second < 900; second++) expect(tick()).toBe(false)
  })

  test('recovers a quarter of an hour later if it decides rarely', () => {
    const { decide, tick, found } = setUp()
    for (let minute = 0; minute < 3; minute++) {
      decide('a', 1, 1)
      tick(60)
    }
    tick(10 * 60)
    expect(found()).toEqual(['a'])
    tick(3 * 60)
    expect(found()).toEqual([])
  })

  test('starts anew once its cause is known, and is found if it continues after that', () => {
    const { shares, decide, tick, found } = setUp()
    decide('a', 500, 500)
    tick()
    expect([...shares.recentRules()]).toEqual(['a'])
    shares.forget()
    expect([tick(10), found()]).toEqual([false, []])
    expect([...shares.recentRules()]).toEqual([])
    decide('a', 10, 10)
    expect(tick(10)).toBe(true)
    expect(found()).toEqual(['a'])
  })
})

describe('all decisions together', () => {
  function setUp() {
    const availability = new Availability()
    const tick = (decisions: number, degraded: number) => {
      availability.nextSecond()
      availability.record(decisions, degraded)
      const found = availability.findings()
      return { isFelt: availability.hasImpact, found }
    }
    return { availability, tick }
  }

  test('miss the target above one in ten thousand by posture over five minutes', () => {
    const { tick } = setUp()
    for (let second = 1; second < 300; second++) {
      expect(tick(second * 100, 0).isFelt).toBe(false)
    }
    expect(tick(30_000, 3).isFelt).toBe(false)
    expect(tick(30_100, 4).isFelt).toBe(true)
  })

  test('raise an alert at the fourth consecutive tick, so that a cause is reported first', () => {
    const { tick } = setUp()
    for (let round = 1; round < 4; round++) {
      expect(tick(30_000, 4)).toEqual({ isFelt: true, found: [] })
    }
    expect(tick(30_000, 4).found).toMatchObject([
      { subject: '', details: { decisions: 30_000, degraded: 4 } },
    ])
  })

  test('raise no alert if there are fewer than a thousand', () => {
    const { tick } = setUp()
    expect(tick(999, 999).isFelt).toBe(false)
    expect(tick(1000, 999).isFelt).toBe(true)
  })

  test('recover after five good minutes', () => {
    const { tick } = setUp()
    tick(1000, 1000)
    for (let second = 2; second <= 300; second++) {
      expect(tick(1000 * second, 1000).isFelt).toBe(true)
    }
    expect(tick(301_000, 1000)).toEqual({ isFelt: false, found: [] })
  })

  test('start anew once their cause is known', () => {
    const { availability, tick } = setUp()
    tick(10_000, 5000)
    availability.forget()
    expect(tick(20_000, 5000).isFelt).toBe(false)
    expect(tick(20_000, 5003).isFelt).toBe(true)
  })

  test('a share below 100 % is never shown as 100 %', () => {
    const { tick } = setUp()
    for (let round = 0; round < 3; round++) tick(9_999_999, 1001)
    const [finding] = tick(9_999_999, 1001).found
    expect(finding?.summary).toContain('99.989 % of all decisions')
  })
})

test('rules beyond the bound are not watched, and those before it stay', () => {
  const counts = new RecentCounts(1)
  for (let i = 0; i < RULES_MAX + 10; i++) counts.record(`r${i}`, 5)
  expect(counts.record(`r${RULES_MAX + 1}`, 7)).toBe(0)
  counts.nextSecond()
  expect(counts.record('r0', 7)).toBe(2)
  counts.nextSecond()
  expect(counts.record('r0', 8)).toBe(1)
  expect(counts.record('r0', 8)).toBe(1)
  expect(counts.record(`r${RULES_MAX + 1}`, 9)).toBe(0)
})
