/** Compares the counter report of a diff with the keys that the rules compile to. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatHash, sipKey } from '../sip-hash.js'
import { compileRules } from '../matching/compile.js'
import type { CompiledLimit, CompiledTiers } from '../matching/compiled.js'
import { diffRules } from './diff.js'
import { parseRules } from './parse-rules.js'
import type { RuleSet } from './rule.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const limit = fc.oneof(
  fc.constantFrom('10/second', '20/second', '10/minute', '5/hour'),
  fc.record(
    {
      algorithm: fc.constantFrom('token-bucket', 'gcra', 'fixed-window', 'sliding-window-counter'),
      max: fc.integer({ min: 1, max: 3 }),
      window: fc.constantFrom('1s', '1m'),
      name: fc.constantFrom('one', 'two'),
      onRefusal: fc.constantFrom('none', 'charge', 'overdraw'),
      debt: fc.integer({ min: 0, max: 9 }),
    },
    { requiredKeys: ['max', 'window'] },
  ),
)
const nameOf = (item: string | { name?: string; algorithm?: string; window: string }) => {
  if (typeof item === 'string') return `token-bucket-${item.split('/')[1]?.[0]}`
  return item.name ?? `${item.algorithm ?? 'token-bucket'}-${item.window === '1s' ? 's' : 'm'}`
}
const limits = (minLength: number) =>
  fc.uniqueArray(limit, {
    minLength,
    maxLength: 3,
    selector: (item) => nameOf(item).replace(/-1([sm])$/, '-$1'),
  })
const tiers = fc.record({
  plan: fc.dictionary(fc.constantFrom('pro', 'free'), limits(0), { minKeys: 1, maxKeys: 2 }),
})
const override = (user: string) => fc.record({ caller: fc.constant({ user }), limits: limits(0) })
const rule = (id: string) =>
  fc.record(
    {
      id: fc.constant(id),
      by: fc.constantFrom(['user'], ['user'], ['user'], ['account']),
      limits: limits(1),
      tiers,
      candidate: fc.record({ limits: limits(1), tiers }, { requiredKeys: ['limits'] }),
      overrides: fc.oneof(fc.constant([]), fc.tuple(override('u1'))),
      mode: fc.constantFrom('enforce', 'shadow', 'off'),
      description: fc.constantFrom('one', 'two'),
      tag: fc.boolean(),
      cost: fc.constantFrom(0, 1),
      posture: fc.constantFrom('open', 'closed', 'local'),
      coordination: fc.constantFrom('exact', 'leased', 'local', 'split'),
      match: fc.record({ path: fc.constantFrom('/a', '/b') }),
    },
    { requiredKeys: ['id', 'by', 'limits'] },
  )
const set = fc
  .uniqueArray(
    fc.constantFrom('a', 'b', 'c').chain((id) => rule(id)),
    { maxLength: 3, selector: ({ id }) => id },
  )
  .map((rules) => {
    const own = rules.map((each) =>
      each.by[0] === 'user' || each.overrides === undefined ? each : { ...each, overrides: [] },
    )
    const { rules: parsed, errors } = parseRules(own)
    if (parsed === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
    return parsed
  })

const SECRET = sipKey(new Uint8Array(16))

/** Returns the compiled limits at each position of a rule. */
function placesOf(rules: RuleSet, id: string): (where: string) => readonly CompiledLimit[] {
  const compiled = compileRules(rules, { secret: SECRET }).rules.find((each) => each.id === id)
  return (where) => {
    const from = where.startsWith('candidate.') ? compiled?.candidate : compiled
    if (from === undefined) return []
    return tierOf(from.tiers, where) ?? from.limits
  }
}

function tierOf(from: CompiledTiers | undefined, where: string) {
  const [, attribute, value = ''] = /tiers\.([a-z]+)\.([a-z]+)$/.exec(where) ?? []
  return from?.attribute === attribute ? from?.limits.get(value) : undefined
}

/** The location of a counter, its key, and the format of its state. */
const counterOf = (compiled: CompiledLimit | undefined) =>
  compiled &&
  `${compiled.coordination === 'split'} ${formatHash(compiled)} ${compiled.limit.format}`

test('a set does not differ from itself', () => {
  const property = fc.property(set, (rules) => {
    expect(diffRules(rules, rules)).toEqual({ set: [], rules: [] })
    expect(diffRules(rules, structuredClone(rules))).toEqual({ set: [], rules: [] })
  })
  fc.assert(property)
})

test('a diff lists every rule that differs, and no other', () => {
  const property = fc.property(set, set, (before, after) => {
    const reported = diffRules(before, after).rules.filter(({ change }) => change !== 'moved')
    const was = new Map(before.rules.map((each) => [each.id, each]))
    const is = new Map(after.rules.map((each) => [each.id, each]))
    const same = (id: string) => {
      try {
        expect(is.get(id)).toEqual(was.get(id))
        return true
      } catch {
        return false
      }
    }
    const differ = [...new Set([...was.keys(), ...is.keys()])].filter((id) => !same(id))
    expect(reported.map(({ id }) => id).toSorted()).toEqual(differ.toSorted())
  })
  fc.assert(property, { numRuns: propertyRuns(300) })
})

test('a counter continues exactly if its location, its key and its state format stay', () => {
  const property = fc.property(set, set, (before, after) => {
    for (const { id, change, counters } of diffRules(before, after).rules) {
      if (change === 'moved') continue
      const [had, has] = [placesOf(before, id), placesOf(after, id)]
      for (const { where, limit: name, counters: fate } of counters) {
        if (where === 'overrides') continue
        const old = counterOf(had(where).find((each) => each.limit.name === name))
        const now = counterOf(has(where).find((each) => each.limit.name === name))
        const expected = now === undefined ? 'end' : now === old ? 'go on' : 'start anew'
        expect(fate, `${id} ${where} ${name}`).toBe(expected)
      }
    }
  })
  fc.assert(property, { numRuns: propertyRuns(300) })
})

test('a diff lists every counter of a changed rule', () => {
  const property = fc.property(set, set, (before, after) => {
    for (const { id, change, counters } of diffRules(before, after).rules) {
      if (change === 'moved') continue
      const compiled = [before, after].flatMap((rules) =>
        compileRules(rules, { secret: SECRET }).rules.filter((each) => each.id === id),
      )
      const inForce = compiled.flatMap((each) => [
        ...each.limits,
        ...[...(each.tiers?.limits.values() ?? [])].flat(),
      ])
      const reported = new Set(
        counters.filter(({ where }) => !where.startsWith('candidate')).map((each) => each.limit),
      )
      expect([...reported]).toEqual(expect.arrayContaining(inForce.map((each) => each.limit.name)))
    }
  })
  fc.assert(property, { numRuns: propertyRuns(200) })
})
