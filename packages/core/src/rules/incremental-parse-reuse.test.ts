import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RuleCache } from './incremental-parse.js'
import { type ParsedRules, parseRules as parse } from './parse-rules.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const cache = new RuleCache()
const parseRules: typeof parse = (source, options) => parse(source, { cache, ...options })

const rule = (id: string, more: object = {}) => ({ id, limits: ['1/second'], ...more })

describe('rules that were parsed before', () => {
  test('are reused, and only changed rules are parsed', () => {
    const [a, b] = [rule('a'), rule('b')]
    const first = parseRules([a, b]).rules?.rules
    const second = parseRules([{ ...a, limits: ['2/second'] }, b]).rules?.rules
    expect(second?.[1]).toBe(first?.[1])
    expect(second?.[0]?.limits).toMatchObject([{ max: 2 }])
    expect(parseRules({ rules: [b] }).rules?.rules[0]).toBe(first?.[1])
  })

  test('are reused with their warnings, at any position', () => {
    const odd = rule('a', { by: ['path'] })
    const [alone] = parseRules([odd]).rules?.rules ?? []
    const inSet = parseRules({ rules: [odd, rule('b')] })
    expect(inSet.rules?.rules[0]).toBe(alone)
    expect(inSet.warnings).toMatchObject([{ code: 'by-path', rule: 'a' }])
  })

  test('are parsed again if they may have been changed in place', () => {
    const changing = { ...rule('a') }
    parseRules([changing])
    changing.limits = ['7/second']
    const read = (parsed: ParsedRules) => parsed.rules?.rules[0]?.limits[0]?.max
    expect(read(parseRules([changing], { cache: undefined }))).toBe(7)
  })

  test('are not cached if they may be changed in place', () => {
    const changing = { ...rule('a') }
    parseRules([changing], { cache: undefined })
    changing.limits = ['7/second']
    expect(parseRules([changing]).rules?.rules[0]?.limits[0]?.max).toBe(7)
  })

  test('are still compared with each other', () => {
    const [a, b] = [rule('a'), rule('a', { by: ['user'] })]
    expect(parseRules([a]).errors).toEqual([])
    expect(parseRules([b]).errors).toEqual([])
    expect(parseRules([a, b]).errors).toMatchObject([{ code: 'duplicate-id', field: 'id' }])
    const many = Array.from({ length: 65 }, (_, i) => rule(`r${i}`))
    for (const each of many) expect(parseRules([each]).errors).toEqual([])
    expect(parseRules(many).errors).toMatchObject([{ code: 'too-many-limits' }])
  })

  test('report their problems each time', () => {
    const bad = rule('a', { limits: ['nonsense'] })
    const odd = rule('b', { by: ['path'] })
    for (let i = 0; i < 2; i++) {
      expect(parseRules([bad]).errors).toMatchObject([{ code: 'bad-limit', field: 'limits[0]' }])
      expect(parseRules([odd]).warnings).toMatchObject([{ code: 'by-path', field: 'by' }])
      expect(parseRules([odd], { strict: true }).errors).toMatchObject([{ code: 'by-path' }])
    }
  })

  test('count towards the size of a set as before', () => {
    const values = Array.from({ length: 1000 }, (_, i) => `v${i}`)
    const wide = rule('a', { match: { where: { user: values } } })
    expect(parseRules([wide]).errors).toEqual([])
    const same = Array.from({ length: 1100 }, () => wide)
    expect(parseRules(same).errors).toMatchObject([{ code: 'too-large' }])
  })

  const part = fc.record(
    {
      id: fc.constantFrom('a', 'b', 'c', 'Bad'),
      by: fc.constantFrom(['user'], ['ip'], ['path'], ['tenant'], [7]),
      match: fc.constantFrom(
        { path: '/a' },
        { path: '/a/*' },
        { where: { user: null } },
        { path: '//' },
      ),
      limits: fc.constantFrom(
        ['1/second'],
        ['9/minute'],
        [{ algorithm: 'fixed-window', max: 5, window: '1h' }],
        [],
      ),
      mode: fc.constantFrom('enforce', 'shadow'),
      cost: fc.constantFrom(1, 6),
    },
    { requiredKeys: ['id', 'limits'] },
  )

  test('give the same result as new objects, in any combination', () => {
    fc.assert(
      fc.property(
        fc.array(part, { minLength: 1, maxLength: 6 }),
        fc.array(fc.array(fc.nat({ max: 5 }), { maxLength: 6 }), { maxLength: 6 }),
        fc.boolean(),
        (parts, sets, strict) => {
          for (const set of sets) {
            const rules = set.flatMap((i) => parts[i] ?? [])
            const known = parseRules({ rules }, { strict })
            expect(known).toEqual(parseRules(structuredClone({ rules }), { strict }))
          }
        },
      ),
      { numRuns: propertyRuns(500) },
    )
  })
})
