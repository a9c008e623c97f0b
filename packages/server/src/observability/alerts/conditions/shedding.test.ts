import { describe, expect, test } from 'vitest'
import { type ShedCount, SheddingKept, SheddingShare } from './shedding.js'

interface Second {
  readonly calls: number
  readonly shed?: readonly ShedCount[]
}

const READS = { rule: 'fleet', priority: 'reads', shed: 10 }

function setUp() {
  const sheds = new SheddingShare()
  const totals = { calls: 0, shed: 0, each: new Map<string, ShedCount>() }
  /** Returns what is found at the last of these seconds. */
  const tick = (seconds: number, { calls, shed = [] }: Second) => {
    let found: ReturnType<typeof sheds.evaluate> = []
    for (let i = 0; i < seconds; i++) {
      totals.calls += calls
      for (const each of shed) {
        const key = `${each.rule} ${each.priority}`
        const before = totals.each.get(key)?.shed ?? 0
        totals.each.set(key, { ...each, shed: before + each.shed })
        totals.shed += each.shed
      }
      found = sheds.evaluate({ ...totals, each: [...totals.each.values()], kept: [] })
    }
    return found
  }
  return { tick }
}

describe('shedding', () => {
  test('is found after 30 s above 1 % of the calls, and not at 1 %', () => {
    const { tick } = setUp()
    expect(tick(60, { calls: 1000, shed: [READS] })).toEqual([])
    expect(tick(29, { calls: 900, shed: [READS] })).toEqual([])
    expect(tick(1, { calls: 900, shed: [READS] })).toMatchObject([
      {
        subject: '',
        summary:
          'This node sheds 1.1 % of its calls in the last 10 s of priority reads: 100 by rule "fleet".',
        past: 'This node shed 1.1 % of its calls in the last 10 s of priority reads: 100 by rule "fleet".',
        details: { calls: 9000, shed: 100, shedBy: ['fleet: 100'], priorities: ['reads: 100'] },
      },
    ])
  })

  test('that pauses is not found, and what was found ends when the window has passed', () => {
    const { tick } = setUp()
    const shedding = { calls: 100, shed: [READS] }
    expect(tick(20, shedding)).toEqual([])
    for (let second = 0; second < 11; second++) expect(tick(1, { calls: 100 })).toEqual([])
    expect(tick(30, shedding)).toEqual([])
    expect(tick(1, shedding)).toHaveLength(1)
    expect(tick(8, { calls: 100 })).toHaveLength(1)
    expect(tick(1, { calls: 100 })).toEqual([])
  })

  test('of fewer than ten calls in ten seconds is not found', () => {
    const { tick } = setUp()
    const few = { calls: 1, shed: [] }
    for (let i = 0; i < 6; i++) {
      tick(9, few)
      expect(tick(1, { calls: 1, shed: [{ ...READS, shed: 9 }] })).toEqual([])
    }
  })

  test('names what sheds most first, the process itself and rules without priorities too', () => {
    const { tick } = setUp()
    const shed = [
      { rule: 'fleet', priority: '', shed: 1 },
      { rule: '', priority: 'test', shed: 3 },
      { rule: '', priority: 'reads', shed: 2 },
    ]
    const [found] = tick(40, { calls: 100, shed })
    expect(found?.summary).toBe(
      'This node sheds 6 % of its calls in the last 10 s of priority test, reads: 50 because it is too busy, 10 by rule "fleet".',
    )
    expect(found?.details).toMatchObject({
      shedBy: ['shed: 50', 'fleet: 10'],
      priorities: ['test: 30', 'reads: 20'],
    })
  })
})

describe('shedding of kept priorities', () => {
  test('is found at the tenth call in 30 s, for each priority', () => {
    const kept = new SheddingKept()
    expect(kept.evaluate({ kept: [['critical', 9]] })).toEqual([])
    const found = kept.evaluate({
      kept: [
        ['critical', 10],
        ['writes', 3],
      ],
    })
    expect(found).toEqual([
      {
        subject: 'critical',
        summary: '10 calls of priority "critical" were shed in the last 30 s; none should be.',
        past: '10 calls of priority "critical" had been shed in the last 30 s; none should be.',
        details: { priority: 'critical', shed: 10 },
      },
    ])
  })

  test('is over 30 s after the last of them', () => {
    const kept = new SheddingKept()
    const tick = () => kept.evaluate({ kept: [['critical', 50]] })
    expect(tick()).toHaveLength(1)
    for (let second = 1; second < 30; second++) expect(tick()).toHaveLength(1)
    expect(tick()).toEqual([])
  })
})
