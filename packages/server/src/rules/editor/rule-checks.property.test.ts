/** Compares the validation of one rule with that of the whole set with it. */
import type { Problem } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { editingNode, META } from './editor.test-helper.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

const limits = fc.constantFrom(['1/second'], ['9/minute'], ['5/hour', '1/day'])
const rule = fc.record(
  {
    by: fc.constantFrom(['user'], ['ip'], ['path'], ['user', 'tenant'], ['api_key'], []),
    match: fc.record(
      {
        path: fc.constantFrom('/others/7', '/others/:x', '/others/*', '/A/', '/a'),
        where: fc.constantFrom({ tenant: null }, { tenant: ['1', '2'] }, { ip: '10.0.0.0/8' }),
        method: fc.constantFrom('GET', 'POST'),
      },
      { requiredKeys: [] },
    ),
    limits,
    tiers: fc.record({
      plan: fc.dictionary(fc.constantFrom('free', 'pro'), limits, { minKeys: 1 }),
    }),
    mode: fc.constantFrom('enforce', 'shadow', 'off'),
    candidate: fc.record({ limits }),
    description: fc.constantFrom('one', 'two'),
  },
  { requiredKeys: ['limits'] },
)

/** One in eight cannot be stored. */
const changedRule = fc.tuple(rule, fc.nat({ max: 7 })).map(([each, odds]) => {
  return odds === 0 ? { ...each, description: 'half a character: \ud800' } : each
})

const others = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    id: `other-${index}`,
    match: { path: `/others/${index}` },
    limits: ['1/second'],
  }))

/** As many rules that every call meets as a call may meet limits, but for a few. */
const crowd = Array.from({ length: 58 }, (_, index) => ({ id: `all-${index}`, limits: ['9/day'] }))

/** Only the text form has a place. */
const withoutPlace = ({ code, field, found }: Problem) => ({ code, field, found })

describe.each([
  ['a few', [], 60],
  ['as many as one call may meet', crowd, 30],
  ['hundreds', others(550), 15],
])('a rule beside %s others', (_, more, numRuns) => {
  test('validating a rule returns the errors, warnings and diff of the whole set with it', async () => {
    const parts = fc.array(rule, { minLength: 1, maxLength: 5 })
    const edits = fc.array(
      fc.record({ at: fc.nat({ max: 6 }), rule: changedRule, commit: fc.boolean() }),
      {
        minLength: 1,
        maxLength: 5,
      },
    )
    await fc.assert(
      fc.asyncProperty(parts, edits, fc.boolean(), async (given, changes, isFirst) => {
        const node = await editingNode()
        try {
          const own = given.map((each, index) => ({ id: `r${index}`, ...each }))
          const first = isFirst ? [...own, ...more] : [...more, ...own]
          const isGood = await node.editor.apply({ rules: first }, META, {}).then(
            () => true,
            () => false,
          )
          fc.pre(isGood)
          let rules: readonly (object & { readonly id: string })[] = first
          for (const { at, rule: changed, commit } of changes) {
            const id = `r${at}`
            const document = { id, ...changed }
            const place = rules.findIndex((each) => each.id === id)
            const after = place === -1 ? [...rules, document] : rules.with(place, document)
            const alone = await node.editor.validateRule(document, place === -1 ? undefined : id)
            const whole = await node.editor.validate({ rules: after }, {})
            expect(alone.errors).toEqual(whole.errors)
            expect(alone.diff).toEqual(whole.diff)
            if (alone.errors.length > 0) continue
            const ofRule = whole.warnings.filter((each) => each.rule === id)
            expect(alone.warnings).toEqual(ofRule)
            const text = JSON.stringify(document, null, 1)
            const typed = await node.editor.validateRule(text, place === -1 ? undefined : id)
            expect(typed.warnings.map(withoutPlace)).toEqual(ofRule.map(withoutPlace))
            if (!commit) continue
            if (place === -1) await node.editor.create(document, META)
            else await node.editor.replace(id, document, META, undefined)
            rules = after
          }
        } finally {
          await node.close()
        }
      }),
      { numRuns: propertyRuns(numRuns) },
    )
  })
})
