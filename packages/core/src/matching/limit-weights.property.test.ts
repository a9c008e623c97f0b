/**
 * Compares the computed maximum of limits per call, for sets that differ in a few rules, with a
 * fresh computation and with trying every call of a small domain.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRules } from '../rules/parse-rules.js'
import type { Rule, RuleSet } from '../rules/rule.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import { matchRules } from './match.js'
import { MaxLimitsCache, maxLimitsPerCall } from './max-limits-per-call.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const secret = sipKey(new Uint8Array(16))

/** Includes a segment that no pattern names. */
const SEGMENTS = ['a', 'A', 'b', 'other']
const PATHS = [1, 2, 3].reduce<readonly (readonly string[])[]>(
  (shorter, length) => [
    ...shorter,
    ...shorter
      .filter((path) => path.length === length - 1)
      .flatMap((path) => SEGMENTS.map((segment) => [...path, segment])),
  ],
  [[]],
)
const CALLS = PATHS.flatMap((path) =>
  ['GET', 'HEAD', 'POST'].flatMap((method) =>
    [{}, { p: '1' }, { p: '2' }].flatMap((p) =>
      ['1', '2'].flatMap((q) =>
        ['10.1.0.1', '10.2.0.1'].map((ip) => ({ path: `/${path.join('/')}`, method, ...p, q, ip })),
      ),
    ),
  ),
)

/** Returns the most limits that any of the calls matches. */
function maxMatchedLimits(set: RuleSet): number {
  const snapshot = compileRules(set, { secret })
  const matchedLimits = CALLS.map((attributes) => {
    const matched = matchRules(snapshot, { attributes })
    return matched.reduce((sum, { limits, candidate }) => {
      return sum + limits.length + (candidate?.length ?? 0)
    }, 0)
  })
  return Math.max(...matchedLimits)
}

const segment = fc.constantFrom('a', 'A', 'b', ':x', ':y')
const pathWith = (...ends: readonly string[]) =>
  fc
    .tuple(fc.array(segment, { minLength: 1, maxLength: 2 }), fc.constantFrom(...ends))
    .map(([segments, end]) => `/${segments.join('/')}${end}`)
const value = fc.integer({ min: 1, max: 9 }).map(String)
const values = fc.uniqueArray(value, { minLength: 1, maxLength: 3 })
const networks = fc.uniqueArray(
  fc.constantFrom('10.0.0.0/8', '10.1.0.0/16', '10.2.0.0/16', '::/8', '10.1.0.1'),
  { minLength: 1 },
)
const excluding = <T>(some: fc.Arbitrary<T>) => some.map((not) => ({ not }))
const method = fc.subarray(['GET', 'HEAD', 'POST'], { minLength: 1 })
const where = fc.record(
  {
    p: fc.oneof(fc.option(values), excluding(values)),
    q: fc.oneof(values, excluding(values)),
    s: values,
    ip: fc.oneof(networks, excluding(networks)),
  },
  { requiredKeys: [] },
)
const anyMatch = fc.record({ path: pathWith('', '/*', '/'), where, method }, { requiredKeys: [] })

/** Values that the tried calls have. */
const known = fc.subarray(['1', '2'], { minLength: 1 })
/** Each kind is indexed by all that distinguishes its rules, so nothing is counted twice. */
const exclusiveMatches = fc.oneof(
  fc.array(fc.record({ path: pathWith('', '/*') }, { requiredKeys: [] })),
  fc.array(fc.record({ method }, { requiredKeys: [] })),
  fc.array(fc.record({ where: fc.oneof(fc.record({ p: known }), fc.record({ q: known })) })),
)

const limits = fc.subarray(['1/second', '1/minute', '1/hour'], { minLength: 1 })
const more = fc.record(
  { mode: fc.constantFrom('enforce', 'shadow', 'off'), limits, candidate: fc.record({ limits }) },
  { requiredKeys: ['limits'] },
)

function rulesOf(documents: readonly object[]): readonly Rule[] {
  return documents.flatMap((document, index) => {
    return parseRules([{ id: `r${index}`, ...document }]).rules?.rules ?? []
  })
}

const setOf = (rules: readonly Rule[], strictPaths: boolean) => ({ routes: [], strictPaths, rules })

describe('the maximum of limits per call', () => {
  test('is the same computed incrementally and for each set alone', () => {
    const documents = fc.array(
      fc.tuple(anyMatch, more).map(([match, rest]) => ({ match, ...rest })),
      { minLength: 1, maxLength: 24 },
    )
    const picks = fc.array(
      fc.record({ of: fc.uniqueArray(fc.nat({ max: 23 })), isStrict: fc.boolean() }),
    )
    fc.assert(
      fc.property(documents, picks, (all, sets) => {
        const rules = rulesOf(all)
        const limitsOfSets = new MaxLimitsCache()
        for (const { of, isStrict } of sets) {
          const set = setOf(
            of.flatMap((index) => rules[index] ?? []),
            isStrict,
          )
          expect(limitsOfSets.maxLimits(set)).toBe(maxLimitsPerCall(set))
        }
      }),
      { numRuns: propertyRuns(1000) },
    )
  })

  test('is never below the limits that a call matches', () => {
    const documents = fc.array(fc.tuple(anyMatch, more), { maxLength: 12 })
    fc.assert(
      fc.property(documents, fc.boolean(), (all, isStrict) => {
        const set = setOf(rulesOf(all.map(([match, rest]) => ({ match, ...rest }))), isStrict)
        expect(maxMatchedLimits(set)).toBeLessThanOrEqual(maxLimitsPerCall(set))
      }),
      { numRuns: propertyRuns(200) },
    )
  })

  test('is reached by a call if rules exclude each other by their indexed condition', () => {
    fc.assert(
      fc.property(exclusiveMatches, fc.array(more), fc.boolean(), (matches, rests, isStrict) => {
        const documents = rests.map((rest, index) => ({ match: matches[index] ?? {}, ...rest }))
        const set = setOf(rulesOf(documents), isStrict)
        expect(maxMatchedLimits(set)).toBe(maxLimitsPerCall(set))
      }),
      { numRuns: propertyRuns(200) },
    )
  })

  test('is computable again after the overlapping patterns are removed', () => {
    // Each has one literal, so that every path matches another set of patterns.
    const paths = Array.from({ length: 20 }, (_, literal) => {
      const segments = Array.from({ length: 20 }, (_each, at) => (at === literal ? 'a' : ':x'))
      return `/${segments.join('/')}`
    })
    const rules = rulesOf(paths.map((path) => ({ match: { path }, limits: ['1/second'] })))
    const limitsOfSets = new MaxLimitsCache()
    const ends = [4, 20, 8, 20, -8, 20, -2]
    const most = ends.map((end) => {
      const some = end < 0 ? rules.slice(end) : rules.slice(0, end)
      return limitsOfSets.maxLimits(setOf(some, false))
    })
    expect(most).toEqual([4, Infinity, 8, Infinity, 8, Infinity, 2])
    expect(maxLimitsPerCall(setOf(rules, false))).toBe(Infinity)
  })
})
