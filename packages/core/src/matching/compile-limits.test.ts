import { describe, expect, test } from 'vitest'
import { parseRules } from '../rules/parse-rules.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import type { Snapshot } from './compiled.js'
import { withOverrides } from './compiled-snapshot.js'

function compile(...rules: readonly object[]): Snapshot {
  const filled = rules.map((rule, i) => ({ id: `r${i}`, by: [], limits: ['100/minute'], ...rule }))
  const { rules: parsed, errors } = parseRules(filled)
  if (parsed === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return compileRules(parsed, { secret: sipKey(new Uint8Array(16)) })
}

describe('a compiled limit', () => {
  const attempts = { max: 100, window: '1h', onRefusal: 'charge' }

  test.each(['exact', 'leased', 'local', 'split'])(
    'has the coordination of its rule: %s',
    (word) => {
      const [rule] = compile({
        coordination: word,
        limits: ['100/minute', attempts],
        tiers: { plan: { pro: ['1000/minute', attempts] } },
        candidate: { limits: ['200/minute', attempts] },
      }).rules
      const lists = [rule?.limits, rule?.tiers?.limits.get('pro'), rule?.candidate?.limits]
      for (const limits of lists) {
        // A limit that charges refusals is exact, because only the store can charge them.
        expect(limits?.map(({ coordination }) => coordination)).toEqual([word, 'exact'])
      }
    },
  )

  test('has the maxStranded and syncEvery of its rule', () => {
    const [leased, local] = compile(
      { coordination: 'leased', maxStranded: 0.1 },
      { coordination: 'local', syncEvery: '1s' },
    ).rules
    expect(leased?.limits[0]).toMatchObject({ maxStranded: 0.1, syncEveryMs: 100 })
    expect(local?.limits[0]).toMatchObject({ maxStranded: 0.05, syncEveryMs: 1000 })
  })
})

describe('a rule set needs coordination', () => {
  const needs = (...rules: readonly object[]) => compile(...rules).needs.coordination

  test('if a rule that is not off has a coordination other than exact', () => {
    expect(needs()).toBe(false)
    expect(needs({}, { coordination: 'exact' })).toBe(false)
    for (const coordination of ['leased', 'local', 'split']) {
      expect(needs({}, { coordination })).toBe(true)
      expect(needs({}, { coordination, mode: 'shadow' })).toBe(true)
      expect(needs({}, { coordination, mode: 'off' })).toBe(false)
    }
  })

  test('unchanged by other overrides', () => {
    const snapshot = compile({ coordination: 'leased' })
    expect(withOverrides(snapshot, []).needs.coordination).toBe(true)
  })
})
