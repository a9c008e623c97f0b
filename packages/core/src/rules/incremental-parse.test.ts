/** Tests that events around the parse of a large set do not affect the next one. */
import { describe, expect, test } from 'vitest'
import { RuleCache } from './incremental-parse.js'
import { type ParsedRules, parseRules as parse } from './parse-rules.js'

const cache = new RuleCache()
const parseRules: typeof parse = (source, options) => parse(source, { cache, ...options })

const NOBODY: ReadonlySet<string> = new Set()

/** Enough rules that the last set is cached as a whole. */
const rulesOf = (name: string, more: object = {}) =>
  Array.from({ length: 600 }, (_, index) => ({
    id: `${name}-${index}`,
    match: { path: `/${name}/${index}` },
    limits: ['1/second'],
    ...more,
  }))

/** Rules that every call matches; twice as many exceed the limits per call. */
const crowdOf = (name: string) =>
  Array.from({ length: 60 }, (_, index) => ({ id: `${name}-${index}`, limits: ['9/day'] }))

const parseAfresh = (source: object) => parseRules(source, { cache: undefined })
const parseIncrementally = (source: object) => parseRules(source, { warnOf: NOBODY })
const idsOf = ({ rules }: ParsedRules) => rules?.rules.map(({ id }) => id)

function expectSameAsAfresh(source: object): void {
  const [known, own] = [parseIncrementally(source), parseAfresh(source)]
  expect(known.errors).toEqual(own.errors)
  expect(idsOf(known)).toEqual(idsOf(own))
  expect(known).toEqual(own)
}

describe('a large set', () => {
  test('has only its own fields, in whatever form they are given', () => {
    const rules = rulesOf('own')
    expect(parseIncrementally({ rules }).errors).toEqual([])
    const above = Object.assign(Object.create(null) as object, { rules })
    const hidden = Object.defineProperty({}, 'rules', { value: rules })
    for (const source of [Object.create(above) as object, hidden]) {
      expectSameAsAfresh(source)
      expect(parseIncrementally(source).errors).toMatchObject([
        { code: 'missing-field', field: 'rules' },
      ])
    }
  })

  test('keeps the values of the first read, even if a getter changes them', () => {
    const sets = [rulesOf('once'), rulesOf('twice')]
    let reads = 0
    parseRules({
      get rules() {
        return sets[reads++ % 2]
      },
    })
    for (const rules of sets.toReversed()) expectSameAsAfresh({ rules })
  })

  test('is unaffected by another set that is parsed during its own parse', () => {
    const [one, other] = [rulesOf('one'), rulesOf('other')]
    const changed = {
      id: 'one-0',
      get limits() {
        parseRules({ rules: other })
        return ['2/second']
      },
    }
    parseRules({ rules: one })
    const rules = [changed, ...one.slice(1)]
    expect(idsOf(parseIncrementally({ rules }))).toEqual(rules.map(({ id }) => id))
    const doubled = [...rules, { id: 'one-5', limits: ['1/day'] }]
    for (const set of [doubled, one, other, rules.slice(1)]) expectSameAsAfresh({ rules: set })
  })

  test.each([{ cache }, { cache: undefined }])(
    'is unaffected by changes of the lists returned before it: %o',
    (options) => {
      const spoil = ({ rules }: ParsedRules) => {
        const list = rules?.rules as unknown[]
        list.length = 10
        list.reverse()
      }
      const before = [...rulesOf('before'), ...crowdOf('all')]
      spoil(parseRules({ rules: before }, options))
      const after = [...rulesOf('after'), ...crowdOf('others')]
      expectSameAsAfresh({ rules: after })
      expect(parseIncrementally({ rules: after }).errors).toEqual([])
      spoil(parseRules({ rules: before }, options))
      const changed = before.with(3, { id: 'changed', limits: ['1/day'] })
      expectSameAsAfresh({ rules: changed })
      spoil(parseIncrementally({ rules: changed }))
      expectSameAsAfresh({ rules: changed })
      before.reverse()
      expect(idsOf(parseIncrementally({ rules: before }))).toEqual(before.map(({ id }) => id))
    },
  )

  test('is parsed from scratch after one that threw', () => {
    const rules = rulesOf('thrown')
    expect(parseIncrementally({ rules }).errors).toEqual([])
    const bad = {
      id: 'bad',
      get limits(): never {
        throw new Error('no limits')
      },
    }
    const throwing = rules.with(5, bad as never)
    expect(() => parseIncrementally({ rules: throwing })).toThrow('no limits')
    const sets = [rules, rules.toSpliced(5, 1), [...rules.slice(300), ...rules.slice(0, 300)]]
    for (const set of sets) expectSameAsAfresh({ rules: set })
  })

  test('repeats its warnings if the rule that causes them stays', () => {
    const rules = rulesOf('warned').with(9, { ...rulesOf('odd')[9], by: ['path'] } as never)
    const compare = false
    for (const set of [rules, rules.slice(1), rules.slice(10)]) {
      const warnings = set.length > 590 ? [{ code: 'by-path', rule: 'odd-9' }] : []
      expect(parseRules({ rules: set }, { compare }).warnings).toMatchObject(warnings)
    }
  })

  test('may have holes, duplicates and an id that another rule had', () => {
    const rules = rulesOf('held')
    const [first, second] = rules
    expect(parseIncrementally({ rules }).errors).toEqual([])
    const sets: readonly (readonly unknown[])[] = [
      Object.assign([...rules], { length: 601 }),
      Object.assign([], { 599: first }),
      [...rules, first],
      rules.with(1, first as never),
      rules.with(0, { ...second } as never),
      rules
        .with(0, { ...first, id: 'held-1' } as never)
        .with(1, { ...second, id: 'held-0' } as never),
      [second, first, ...rules.slice(2)],
      rules.slice(0, 500),
      rules.slice(0, 499),
    ]
    for (const set of sets) expectSameAsAfresh({ rules: set })
    for (const source of [null, 7, new Map()]) expectSameAsAfresh(source as object)
  })
})
