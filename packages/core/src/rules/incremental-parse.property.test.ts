/** Compares the incremental parse of large sets with few changes with a fresh parse. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { diffRules } from './diff.js'
import { RuleCache } from './incremental-parse.js'
import { type ParsedRules, parseRules as parse } from './parse-rules.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const cache = new RuleCache()
const parseRules: typeof parse = (source, options) => parse(source, { cache, ...options })

/** Enough rules that the last set is cached as a whole. */
const othersOf = (attribute: string): readonly object[] =>
  Array.from({ length: 600 }, (_, index) => ({
    id: `other-${index}`,
    match: { path: `/others/${index}`, where: index % 3 === 0 ? { [attribute]: `t${index}` } : {} },
    limits: ['1/second'],
  }))
/** The rules of two nodes in one process. */
const rulePools = [othersOf('tenant'), othersOf('user')]

const rule = fc.record(
  {
    id: fc.constantFrom('a', 'b', 'c', 'd', 'other-7', 'other-8', 'Bad'),
    by: fc.constantFrom(['user'], ['ip'], ['path'], ['user', 'tenant'], [], [7]),
    match: fc.record(
      {
        path: fc.constantFrom('/others/7', '/others/:x', '/others/*', '/A/', '/a', '//'),
        where: fc.constantFrom(
          { user: null },
          { user: ['1', '2'] },
          { ip: '10.0.0.0/8' },
          { user: { not: ['1'] } },
          { ip: { not: '10.0.0.0/8' } },
        ),
        method: fc.constantFrom('GET', 'POST'),
      },
      { requiredKeys: [] },
    ),
    limits: fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom(['1/second'], ['9/minute'], ['5/hour', '1/day']) },
      { weight: 1, arbitrary: fc.constantFrom([], ['x']) },
    ),
    mode: fc.constantFrom('enforce', 'enforce', 'shadow', 'off'),
    candidate: fc.constant({ limits: ['3/second'] }),
  },
  { requiredKeys: ['id', 'limits'] },
)
/** A position in the list, and the edit to make there. */
const edit = fc.record({
  at: fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: 600 }), fc.integer({ min: 596, max: 604 })),
  remove: fc.nat({ max: 2 }),
  put: fc.array(fc.nat({ max: 7 }), { maxLength: 2 }),
})
const set = fc.record({
  book: fc.constantFrom(0, 0, 1),
  edits: fc.array(edit, { maxLength: 3 }),
  warnOf: fc.option(fc.subarray(['a', 'b', 'c', 'other-7', 'other-9', 'nobody']), {
    nil: undefined,
  }),
  compare: fc.boolean(),
  strict: fc.constantFrom(false, false, true),
  /** A list of rules, a map, or a map without a prototype. */
  form: fc.constantFrom('list', 'map', 'map', 'bare'),
  strictPaths: fc.boolean(),
  routes: fc.constantFrom([], ['/a/:x'], ['/a/:x', '/A/:y']),
})

/** Keeps only the warnings of the given rules. */
function withWarningsOf(parsed: ParsedRules, ids: ReadonlySet<string> | undefined): ParsedRules {
  const isWanted = (id: string | undefined) => ids === undefined || ids.has(id ?? '')
  return { ...parsed, warnings: parsed.warnings.filter((each) => isWanted(each.rule)) }
}

describe('a large set that differs little from the one before it', () => {
  test('has the same rules, errors and warnings as when parsed alone', () => {
    fc.assert(
      fc.property(
        fc.array(rule, { minLength: 8, maxLength: 8 }),
        fc.array(set, { minLength: 1, maxLength: 6 }),
        (parts, sets) => {
          // The list is changed in place, unlike the rules in it.
          const lists = rulePools.map((book) => [...book])
          for (const { book, edits, warnOf, compare, strict, form, ...fields } of sets) {
            const rules = lists[book] ?? []
            for (const { at, remove, put } of edits) {
              rules.splice(at, remove, ...put.flatMap((index) => parts[index] ?? []))
            }
            const map = { ...fields, rules }
            const bare = Object.assign(Object.create(null) as object, map)
            const source = { list: rules, map, bare }[form]
            const options = { compare, strict, warnOf: warnOf && new Set(warnOf) }
            const known = parseRules(source, options)
            expect(known).toEqual(parseRules(source, { ...options, cache: undefined }))
            if (!strict) {
              const all = parseRules(source, { compare, cache: undefined })
              expect(known).toEqual(withWarningsOf(all, options.warnOf))
            }
            if (known.rules === undefined) rules.splice(0, Infinity, ...(rulePools[book] ?? []))
          }
        },
      ),
      { numRuns: propertyRuns(60) },
    )
  })

  test('is reported as a whole if it has too many rules or values', () => {
    const many = Array.from({ length: 10_000 }, (_, index) => ({
      id: `r${index}`,
      match: { path: `/p${index}` },
      limits: ['1/second'],
    }))
    const warnOf = new Set<string>()
    expect(parseRules({ rules: many }, { warnOf }).errors).toEqual([])
    const more = [...many, { id: 'more', limits: ['1/second'] }]
    expect(parseRules({ rules: more }, { warnOf }).errors).toMatchObject([{ code: 'too-many' }])
    const user = Array.from({ length: 1000 }, (_, index) => `u${index}`)
    const wide = many.map((each, index) => {
      return index < 939
        ? { ...each, match: { where: { user: user.map((u) => index + u) } } }
        : each
    })
    expect(parseRules({ rules: wide }, { warnOf }).errors).toEqual([])
    const wider = wide.with(9_999, { ...wide[0], id: 'wider' } as never)
    expect(parseRules({ rules: wider }, { warnOf }).errors).toMatchObject([{ code: 'too-large' }])
    expect(parseRules({ rules: wide }, { warnOf }).errors).toEqual([])
  })
})

test('a diff of sets that share rule objects equals that of sets that share none', () => {
  const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  const rules = ids.flatMap((id) => parseRules([{ id, limits: ['1/second'] }]).rules?.rules ?? [])
  const order = fc.uniqueArray(fc.nat({ max: 6 }))
  fc.assert(
    fc.property(order, order, (before, after) => {
      const [one, other] = [before, after].map((places) => ({
        routes: [],
        strictPaths: false,
        rules: places.flatMap((place) => rules[place] ?? []),
      }))
      if (one === undefined || other === undefined) throw new Error('two sets')
      expect(diffRules(one, other)).toEqual(diffRules(structuredClone(one), other))
    }),
    { numRuns: propertyRuns(1000) },
  )
})
