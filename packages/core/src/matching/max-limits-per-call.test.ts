import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRules } from '../rules/parse-rules.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import { matchRules } from './match.js'
import { maxLimitsPerCall } from './max-limits-per-call.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const secret = sipKey(new Uint8Array(16))
const rule = (id: number, more: object = {}) => ({ id: `r${id}`, limits: ['1/second'], ...more })
const many = (count: number, more: (index: number) => object) =>
  Array.from({ length: count }, (_, index) => rule(index, more(index)))

function maxLimitsOf(rules: object[]): number {
  const parsed = parseRules(rules)
  if (parsed.rules === undefined) throw new Error(parsed.errors[0]?.message)
  return maxLimitsPerCall(parsed.rules)
}

describe('the maximum of limits per call', () => {
  test('counts rules that exclude each other once', () => {
    expect(maxLimitsOf(many(1000, (i) => ({ match: { path: `/p${i}` } })))).toBe(1)
    expect(maxLimitsOf(many(1000, (i) => ({ match: { where: { tenant: `t${i}` } } })))).toBe(1)
    expect(
      maxLimitsOf(many(1000, (i) => ({ match: { where: { plan: 'a', tenant: `t${i}` } } }))),
    ).toBe(1)
    expect(maxLimitsOf(many(2, (i) => ({ match: { method: i === 0 ? 'GET' : 'POST' } })))).toBe(1)
    expect(maxLimitsOf(many(256, (i) => ({ match: { where: { ip: `10.${i}.0.0/16` } } })))).toBe(1)
  })

  test('adds rules that one call can match together', () => {
    const paths = ['/a/b', '/a/:x', '/:x/b', '/a/*', '/*']
    expect(maxLimitsOf(paths.map((path, i) => rule(i, { match: { path } })))).toBe(5)
    expect(
      maxLimitsOf([rule(0), rule(1, { match: { path: '/a' } }), rule(2, { mode: 'off' })]),
    ).toBe(2)
    const networks = ['10.0.0.0/8', '10.1.0.0/16', '10.2.0.0/16']
    expect(maxLimitsOf(networks.map((ip, i) => rule(i, { match: { where: { ip } } })))).toBe(2)
  })

  test('takes the largest tier, override and candidate of a rule', () => {
    const three = ['1/second', '1/minute', '1/hour']
    expect(maxLimitsOf([rule(0, { by: ['user'], tiers: { plan: { pro: three } } })])).toBe(3)
    const overrides = [{ caller: { user: 'u' }, limits: three }]
    expect(maxLimitsOf([rule(0, { by: ['user'], overrides })])).toBe(3)
    expect(maxLimitsOf([rule(0, { candidate: { limits: three } })])).toBe(4)
  })

  test('is computed for sets of the largest accepted size', () => {
    const values = (rules: number) => Array.from({ length: 1000 }, (_, i) => `v${rules}-${i}`)
    expect(maxLimitsOf(many(200, (i) => ({ match: { where: { user: values(i) } } })))).toBe(1)
  })

  test('is never below the limits that a call matches', () => {
    const segment = fc.constantFrom('a', 'b', ':x')
    const path = fc
      .tuple(fc.array(segment, { minLength: 1, maxLength: 3 }), fc.boolean())
      .map(([segments, wild]) => `/${segments.join('/')}${wild ? '/*' : ''}`)
    const where = fc.dictionary(fc.constantFrom('p', 'q'), fc.constantFrom('1', '2'))
    const match = fc.record(
      { path, where, method: fc.constantFrom('GET', 'POST') },
      { requiredKeys: [] },
    )
    const call = fc.record({
      path: fc.constantFrom('/a', '/a/b', '/b/a', '/a/a/b', '/a/b/b/a'),
      method: fc.constantFrom('GET', 'POST'),
      p: fc.constantFrom('1', '2'),
      q: fc.constantFrom('1', '2'),
    })
    fc.assert(
      fc.property(fc.array(match, { maxLength: 12 }), call, (matches, attributes) => {
        const { rules } = parseRules(matches.map((each, index) => rule(index, { match: each })))
        fc.pre(rules !== undefined)
        const met = matchRules(compileRules(rules, { secret }), { attributes }).length
        expect(met).toBeLessThanOrEqual(maxLimitsPerCall(rules))
      }),
      { numRuns: propertyRuns(1000) },
    )
  })
})
