import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRules } from '../rules/parse-rules.js'
import { parseOverride } from '../rules/parse-override.js'
import type { RuleSet } from '../rules/rule.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import type { Snapshot } from './compiled.js'
import { matchRules } from './match.js'
import { changeOverrides, type OverrideChange, replaceOverrides } from './overrides.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

const secret = sipKey(new Uint8Array(16))
const otherSecret = sipKey(new Uint8Array(16).fill(5))

function parse(source: object): RuleSet {
  const { rules, errors } = parseRules(source)
  if (rules === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return rules
}

const perUser = (more: object = {}) => ({ id: 'r', by: ['user'], limits: ['1/second'], ...more })
const compile = (...rules: object[]) => compileRules(parse(rules), { secret })

/** Makes an override of `max` per second for a caller, or its removal if `max` is undefined. */
function change(
  caller: Record<string, string>,
  max: number | undefined,
  { rule = 'r', until }: { readonly rule?: string; readonly until?: string } = {},
): OverrideChange {
  const by = Object.keys(caller)
  const [parsed] = parse([{ id: rule, by, limits: ['1/second'] }]).rules
  if (parsed === undefined) throw new Error('no rule')
  const source = { caller, limits: [`${max ?? 0}/second`], until }
  const { override } = parseOverride(parsed, source)
  if (override === undefined) throw new Error('no override')
  return { rule, caller: override.caller, override: max === undefined ? undefined : override }
}

const user = (name: string, max: number | undefined, until?: string) =>
  change({ user: name }, max, until === undefined ? {} : { until })

function maxOf(snapshot: Snapshot, attributes: Record<string, string>, wallMs = 0) {
  return matchRules(snapshot, { attributes }, wallMs).map(({ limits }) => limits[0]?.limit.max)
}

describe('a standalone override', () => {
  test('applies to its caller alone, and only in the new snapshot', () => {
    const before = compile(perUser())
    const { snapshot } = changeOverrides(before, [user('a', 9)])
    expect([maxOf(snapshot, { user: 'a' }), maxOf(snapshot, { user: 'b' })]).toEqual([[9], [1]])
    expect(maxOf(before, { user: 'a' })).toEqual([1])
    const { snapshot: after } = changeOverrides(snapshot, [user('a', undefined)])
    expect(maxOf(after, { user: 'a' })).toEqual([1])
    expect(after.overrides).toBeUndefined()
    expect(maxOf(snapshot, { user: 'a' })).toEqual([9])
  })

  test('replaces that of the rule, which applies again when it is removed or ends', () => {
    const inline = [{ caller: { user: 'a' }, limits: ['5/second'] }]
    const before = compile(perUser({ overrides: inline }))
    const end = '2030-01-01T00:00:00Z'
    const { snapshot } = changeOverrides(before, [user('a', 9, end)])
    expect(maxOf(snapshot, { user: 'a' })).toEqual([9])
    expect(maxOf(snapshot, { user: 'a' }, Date.parse(end))).toEqual([5])
    const { snapshot: after } = changeOverrides(snapshot, [user('a', undefined)])
    expect(maxOf(after, { user: 'a' })).toEqual([5])
  })

  test('makes calls read the clock only while one has an end', () => {
    const before = compile(perUser(), { ...perUser({ mode: 'off' }), id: 'off' })
    const end = '2030-01-01T00:00:00Z'
    const { snapshot } = changeOverrides(before, [user('a', 9, end)])
    expect([before.needs.clock, snapshot.needs.clock]).toEqual([false, true])
    const { snapshot: after } = changeOverrides(snapshot, [user('a', 9)])
    expect(after.needs.clock).toBe(false)
    const { snapshot: off } = changeOverrides(before, [
      change({ user: 'a' }, 9, { rule: 'off', until: end }),
    ])
    expect([off.needs.clock, off.allNeeds.clock]).toEqual([false, true])
  })

  test('is ignored for an unknown rule, or a caller that the rule does not count', () => {
    const before = compile(perUser())
    const { snapshot, callers } = changeOverrides(before, [
      change({ user: 'a' }, 9, { rule: 'unknown' }),
      change({ ip: '192.0.2.1' }, 9),
      change({ user: 'a', ip: '192.0.2.1' }, 9),
      change({}, 9),
    ])
    expect(snapshot).toBe(before)
    expect(callers).toEqual([])
  })

  test('is found in any spelling of its caller; each is set and removed separately', () => {
    const before = compile({ id: 'r', by: ['ip'], limits: ['1/second'] })
    const [plain, mapped] = ['192.0.2.7', '::ffff:192.0.2.7']
    const ip = (written: string, max?: number) => change({ ip: written }, max)
    const one = changeOverrides(before, [ip(mapped, 9)]).snapshot
    expect(maxOf(one, { ip: plain })).toEqual([9])
    const inTurn = changeOverrides(one, [ip(plain, 4)]).snapshot
    const atOnce = replaceOverrides(before, [ip(plain, 4), ip(mapped, 9)])
    expect(maxOf(inTurn, { ip: plain })).toEqual(maxOf(atOnce, { ip: plain }))
    expect(maxOf(changeOverrides(inTurn, [ip(plain)]).snapshot, { ip: plain })).toEqual([9])
    expect(maxOf(changeOverrides(inTurn, [ip(mapped)]).snapshot, { ip: plain })).toEqual([4])
  })

  test('shares its limits with others that have the same', () => {
    const before = compile(perUser())
    const { snapshot } = changeOverrides(before, [user('a', 9), user('b', 9)])
    const [a, b] = ['a', 'b'].map((name) => matchRules(snapshot, { attributes: { user: name } })[0])
    expect(a?.limits[0]?.limit.max).toBe(9)
    expect(a?.limits).toBe(b?.limits)
  })

  test('is removed when all are replaced, unlike the overrides of rules themselves', () => {
    const inline = [{ caller: { user: 'a' }, limits: ['5/second'] }]
    const before = compile(perUser({ overrides: inline }))
    const some = replaceOverrides(before, [user('b', 7), user('c', 8)])
    const others = replaceOverrides(some, [user('c', 9), user('d', undefined)])
    const names = ['a', 'b', 'c', 'd']
    const maxima = (snapshot: Snapshot) => names.flatMap((name) => maxOf(snapshot, { user: name }))
    expect(maxima(some)).toEqual([5, 7, 8, 1])
    expect(maxima(others)).toEqual([5, 1, 9, 1])
  })
})

describe('after a change of rules, standalone overrides', () => {
  const before = changeOverrides(compile(perUser(), { ...perUser(), id: 'other' }), [
    user('a', 9),
    change({ user: 'a' }, 8, { rule: 'other' }),
  ]).snapshot
  const next = (rules: object[], options = { secret }) =>
    compileRules(parse(rules), options, before)

  test('stay compiled if no relevant field of the rule changes', () => {
    const after = next([{ ...perUser(), id: 'first' }, perUser({ limits: ['3/second'] })])
    expect(maxOf(after, { user: 'a' })).toEqual([1, 9])
    expect(after.overrides?.[1]).toBe(before.overrides?.[0])
  })

  test('are compiled again for another posture, durability or key', () => {
    const open = next([perUser({ posture: 'open', durable: true })])
    const [matched] = matchRules(open, { attributes: { user: 'a' } })
    expect(matched?.limits).toMatchObject([{ posture: 'open', durable: true, limit: { max: 9 } }])
    expect(maxOf(next([perUser()], { secret: otherSecret }), { user: 'a' })).toEqual([9])
  })

  test('are compiled again for another coordination, and are exact if it is unsupported', () => {
    const queue = { algorithm: 'leaky-bucket', max: 7, windowMs: 1000 } as const
    const override = { caller: new Map([['user', 'a']]), limits: [queue], untilMs: undefined }
    const queued = changeOverrides(compile(perUser()), [
      user('b', 9),
      { rule: 'r', caller: override.caller, override },
    ]).snapshot
    const limitsOf = (rule: object, name: string) => {
      const after = compileRules(parse([perUser(rule)]), { secret }, queued)
      return matchRules(after, { attributes: { user: name } })[0]?.limits
    }
    const leased = { coordination: 'leased', maxStranded: 0.5 }
    expect(limitsOf(leased, 'b')).toMatchObject([leased])
    expect(limitsOf(leased, 'a')).toMatchObject([{ coordination: 'exact', limit: { max: 7 } }])
    const local = { coordination: 'local', syncEvery: '1s' }
    expect(limitsOf(local, 'b')).toMatchObject([{ coordination: 'local', syncEveryMs: 1000 }])
    expect(limitsOf(local, 'a')).toMatchObject([{ coordination: 'exact' }])
    expect(limitsOf({ coordination: 'split' }, 'a')).toMatchObject([{ coordination: 'split' }])
  })

  test('of a path keep its written spelling when paths become strict', () => {
    const rules = [{ id: 'r', by: ['path'], limits: ['1/second'] }]
    const folded = changeOverrides(compile(...rules), [change({ path: '/Login' }, 9)]).snapshot
    expect(maxOf(folded, { path: '/login' })).toEqual([9])
    const strict = compileRules(parse({ strictPaths: true, rules }), { secret }, folded)
    expect([maxOf(strict, { path: '/login' }), maxOf(strict, { path: '/Login' })]).toEqual([
      [1],
      [9],
    ])
  })

  test('are removed with their rule, or when it counts by other attributes', () => {
    const gone = next([{ ...perUser(), id: 'other' }])
    expect(maxOf(gone, { user: 'a' })).toEqual([8])
    const again = compileRules(parse([perUser()]), { secret }, gone)
    expect(maxOf(again, { user: 'a' })).toEqual([1])
    const counted = next([perUser({ by: ['user', 'ip'] })])
    expect(maxOf(counted, { user: 'a', ip: '192.0.2.1' })).toEqual([1])
  })

  test('stay beside those of the rule when these change', () => {
    const inline = [{ caller: { user: 'b' }, limits: ['5/second'] }]
    const after = next([perUser({ overrides: inline })])
    expect([maxOf(after, { user: 'a' }), maxOf(after, { user: 'b' })]).toEqual([[9], [5]])
    const without = compileRules(parse([perUser()]), { secret }, after)
    expect([maxOf(without, { user: 'a' }), maxOf(without, { user: 'b' })]).toEqual([[9], [1]])
  })
})

describe('a snapshot made from another', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'd')
  const inline = fc.uniqueArray(
    fc.record({ caller: fc.record({ user: name }), limits: fc.constantFrom(['2/second'], []) }),
    { selector: ({ caller }) => caller.user, maxLength: 2 },
  )
  const rule = fc.record({
    id: fc.constantFrom('r', 's', 't'),
    by: fc.constantFrom(['user'], ['ip']),
    mode: fc.constantFrom('enforce', 'shadow', 'off'),
    posture: fc.constantFrom('open', 'closed'),
    coordination: fc.constantFrom('exact', 'leased'),
    match: fc.constantFrom({}, { where: { plan: 'pro' } }, { where: { plan: 'pro', tenant: 't' } }),
    overrides: inline,
  })
  // Sets are built from these, so that the same object is in several sets, at any position.
  const pool = fc.array(rule, { minLength: 4, maxLength: 6 }).map((list) =>
    list.map((each) => ({
      ...each,
      limits: ['1/second'],
      overrides: each.by[0] === 'user' ? each.overrides : [],
    })),
  )
  const places = fc.uniqueArray(fc.nat({ max: 5 }))
  const own = fc.record({
    rule: fc.constantFrom('r', 's', 't'),
    name,
    max: fc.integer({ min: 3, max: 5 }),
  })
  const step = fc.oneof(
    fc.record({ places }),
    fc.record({ changes: fc.array(fc.record({ own, isGone: fc.boolean() }), { maxLength: 4 }) }),
  )
  const calls = ['a', 'b', 'c', 'd'].flatMap((who) =>
    [{}, { plan: 'pro' }, { plan: 'pro', tenant: 't' }].map((more) => ({
      attributes: { user: who, ip: `192.0.2.${who.charCodeAt(0)}`, ...more },
    })),
  )
  const answers = (snapshot: Snapshot) =>
    calls.map((call) =>
      matchRules(snapshot, call).map(({ rule: { id, by, order }, caller, limits }) => {
        const limitSummaries = limits.map(({ limit, hi, lo, posture, coordination }) => [
          limit,
          hi,
          lo,
          posture,
          coordination,
        ])
        return [id, by, order, caller, limitSummaries]
      }),
    )

  test('decides like one compiled from scratch, and leaves the other unchanged', () => {
    fc.assert(
      fc.property(pool, fc.array(step, { minLength: 1, maxLength: 10 }), (all, steps) => {
        let present = compile()
        let current = parse([])
        // The standalone overrides that a full read would return, by rule.
        const standalone = new Map<string, Map<string, OverrideChange>>()
        for (const each of steps) {
          const before = answers(present)
          const earlier = present
          if ('places' in each) {
            const list = each.places.flatMap((place) => all[place] ?? [])
            const isFirst = (one: { readonly id: string }, i: number) =>
              list.findIndex(({ id }) => id === one.id) === i
            const parsed = parse(list.filter(isFirst))
            for (const id of standalone.keys()) {
              const was = current.rules.find((one) => one.id === id)
              const is = parsed.rules.find((one) => one.id === id)
              if (is === undefined || was?.by[0] !== is.by[0]) standalone.delete(id)
            }
            current = parsed
            present = compileRules(parsed, { secret }, present)
          } else {
            const changes = each.changes.map(({ own: { rule: id, name: who, max }, isGone }) =>
              change({ user: who }, isGone ? undefined : max, { rule: id }),
            )
            for (const one of changes) {
              const found = current.rules.find(({ id }) => id === one.rule)
              if (found?.by[0] !== 'user') continue
              const list = standalone.get(one.rule) ?? new Map<string, OverrideChange>()
              standalone.set(one.rule, list.set(one.caller.get('user') ?? '', one))
            }
            present = changeOverrides(present, changes).snapshot
          }
          const set = [...standalone.values()].flatMap((list) => [...list.values()])
          const fresh = replaceOverrides(compileRules(current, { secret }), set)
          expect(answers(present)).toEqual(answers(fresh))
          expect(answers(earlier)).toEqual(before)
        }
      }),
      { numRuns: propertyRuns(150) },
    )
  })
})
