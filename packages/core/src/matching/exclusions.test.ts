/** Tests conditions that exclude values: `where: { plan: { not: [free] } }`. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRules } from '../rules/parse-rules.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import type { Snapshot } from './compiled.js'
import { explainMatches } from './explain-matches.js'
import { matchRules } from './match.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const secret = sipKey(new Uint8Array(16))

function compile(rules: readonly object[]): Snapshot {
  const parsed = parseRules(rules.map((rule) => ({ limits: ['1/second'], ...rule })))
  if (parsed.rules === undefined) throw new Error(parsed.errors[0]?.message)
  return compileRules(parsed.rules, { secret })
}

const idsOf = (snapshot: Snapshot, attributes: Readonly<Record<string, string>>) =>
  matchRules(snapshot, { attributes }).map(({ rule }) => rule.id)

describe('a rule that excludes values', () => {
  const snapshot = compile([
    { id: 'paying', match: { where: { plan: { not: ['free', 'trial'] } } } },
    { id: 'outside', match: { where: { ip: { not: ['10.0.0.0/8', '2001:db8::/32'] } } } },
    { id: 'not-root', match: { where: { user: { not: 'root' }, plan: ['free'] } } },
    { id: 'per-user', match: { where: { user: { not: 'root' } } }, by: ['user'] },
  ])

  test.each([
    [{}, ['paying', 'outside']],
    [{ plan: '' }, ['paying', 'outside']],
    [{ plan: 'pro' }, ['paying', 'outside']],
    [{ plan: 'free' }, ['outside', 'not-root']],
    [{ plan: 'free', user: 'root' }, ['outside']],
    [{ plan: 'free', user: 'u1' }, ['outside', 'not-root', 'per-user']],
    [{ plan: 'trial', ip: '10.1.2.3' }, []],
    [{ plan: 'trial', ip: '::ffff:10.1.2.3' }, []],
    [{ plan: 'trial', ip: '2001:db8:1::5' }, []],
    [{ plan: 'trial', ip: '2001:db8:1::/64' }, []],
    [{ plan: 'trial', ip: '11.0.0.1' }, ['outside']],
    [{ plan: 'trial', ip: '2001:db9::' }, ['outside']],
    [{ plan: 'trial', ip: 'nonsense' }, ['outside']],
  ])('%o matches %o', (attributes, ids) => {
    expect(idsOf(snapshot, attributes)).toEqual(ids)
  })

  test('explains why it does not match', () => {
    const attributes = { plan: 'free', ip: '10.1.2.3' }
    const whys = explainMatches(snapshot, { attributes }).map(({ why }) => why)
    expect(whys).toEqual([
      'plan is "free", which the rule leaves out: not "free" or "trial"',
      'ip is "10.1.2.3", which the rule leaves out: not "10.0.0.0/8" or "2001:db8::/32"',
      null,
      'it counts by user, which is absent',
    ])
  })

  test('is found by the index exactly if it matches by itself', () => {
    const value = fc.constantFrom('1', '2', '3')
    const values = fc.uniqueArray(value, { minLength: 1 })
    const networks = fc.uniqueArray(
      fc.constantFrom('10.0.0.0/8', '10.1.0.0/16', '10.1.0.1', '::/8'),
      { minLength: 1 },
    )
    const either = <T>(some: fc.Arbitrary<T>) =>
      fc.oneof(
        some,
        some.map((not) => ({ not })),
        fc.constant(null),
      )
    const where = fc.record(
      { p: either(values), q: either(values), ip: either(networks) },
      { requiredKeys: [] },
    )
    const attributes = fc.record(
      { p: value, q: value, ip: fc.constantFrom('10.1.0.1', '10.2.0.1', '11.0.0.1', '::1', 'x') },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(fc.array(where, { maxLength: 8 }), attributes, (wheres, call) => {
        const made = compile(wheres.map((each, i) => ({ id: `r${i}`, match: { where: each } })))
        const plain = explainMatches(made, { attributes: call }).filter(({ matched }) => matched)
        expect(idsOf(made, call)).toEqual(plain.map(({ rule }) => rule))
      }),
      { numRuns: propertyRuns(500) },
    )
  })
})
