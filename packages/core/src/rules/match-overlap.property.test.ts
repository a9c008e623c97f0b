/** Checks the relation of two matches against every call of a small domain. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compileRules } from '../matching/compile.js'
import { matchRules } from '../matching/match.js'
import { sipKey } from '../sip-hash.js'
import { isCoveredBy, mayMeet } from './match-overlap.js'
import { parseRules } from './parse-rules.js'
import type { Rule } from './rule.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const secret = sipKey(new Uint8Array(16))

const value = fc.constantFrom('1', '2', '3')
const values = fc.uniqueArray(value, { minLength: 1 })
const networks = fc.uniqueArray(
  fc.constantFrom('10.0.0.0/8', '10.1.0.0/16', '10.2.0.0/16', '10.1.0.1', '2001:db8::/32'),
  { minLength: 1 },
)
const either = <T>(some: fc.Arbitrary<T>) =>
  fc.oneof(
    some,
    some.map((not) => ({ not })),
    fc.constant(null),
  )
const whereOf = (ip: boolean) =>
  fc.record(
    { p: either(values), q: either(values), ...(ip ? { ip: either(networks) } : {}) },
    { requiredKeys: [] },
  )

const ABSENT = [undefined]
const CALLS = [...ABSENT, '1', '2', '3', '4'].flatMap((p) =>
  [...ABSENT, '1', '2', '3', '4'].flatMap((q) =>
    [...ABSENT, '10.1.0.1', '10.1.0.2', '10.2.0.1', '10.3.0.1', '11.0.0.1', '2001:db8::1'].map(
      (ip) => ({ p, q, ip }),
    ),
  ),
)

function ruleOf(where: object): Rule {
  const { rules, errors } = parseRules([{ id: 'r', match: { where }, limits: ['1/second'] }])
  const [rule] = rules?.rules ?? []
  if (rule === undefined) throw new Error(errors[0]?.message)
  return rule
}

function meets(rule: Rule): (call: (typeof CALLS)[number]) => boolean {
  const snapshot = compileRules({ routes: [], strictPaths: false, rules: [rule] }, { secret })
  return (attributes) => matchRules(snapshot, { attributes }).length > 0
}

describe('the matches of two rules', () => {
  test('cover one another only if every call of the inner one matches the outer one', () => {
    const missing = fc.constantFrom('none', 'p', 'q')
    fc.assert(
      fc.property(whereOf(true), whereOf(true), missing, (first, second, name) => {
        const [inner, outer] = [ruleOf(first), ruleOf(second)]
        if (!isCoveredBy(inner.match, outer.match, name)) return
        const [isInner, isOuter] = [meets(inner), meets(outer)]
        for (const call of CALLS) {
          // The other rule is matched with the same call, without the attribute.
          if (isInner(call)) expect(isOuter({ ...call, [name]: undefined })).toBe(true)
        }
      }),
      { numRuns: propertyRuns(500) },
    )
  })

  test('may meet exactly if some call matches both', () => {
    fc.assert(
      fc.property(whereOf(false), whereOf(false), (first, second) => {
        const [a, b] = [ruleOf(first), ruleOf(second)]
        const [meetsA, meetsB] = [meets(a), meets(b)]
        // The domain has a value that no rule names, so that it shows where two rules may overlap.
        expect(CALLS.some((call) => meetsA(call) && meetsB(call))).toBe(mayMeet(a, b))
      }),
      { numRuns: propertyRuns(500) },
    )
  })

  test('are disjoint by excluded networks only if these contain all networks of the other', () => {
    const has = ruleOf({ ip: ['10.1.0.0/16'] })
    expect(mayMeet(has, ruleOf({ ip: { not: ['10.0.0.0/8'] } }))).toBe(false)
    expect(mayMeet(has, ruleOf({ ip: { not: ['10.1.0.0/24'] } }))).toBe(true)
    expect(mayMeet(ruleOf({ ip: { not: ['10.0.0.0/8'] } }), has)).toBe(false)
    expect(mayMeet(ruleOf({ ip: null }), ruleOf({ ip: { not: ['10.0.0.0/8'] } }))).toBe(true)
  })
})
