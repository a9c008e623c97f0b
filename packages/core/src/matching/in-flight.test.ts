import { describe, expect, test } from 'vitest'
import { planCall } from '../decision/plan.js'
import { parseRules } from '../rules/parse-rules.js'
import { sipKey } from '../sip-hash.js'
import { compileRules } from './compile.js'
import type { Snapshot } from './compiled.js'
import { withoutPlaces } from './in-flight.js'
import { matchRules } from './match.js'
import { changeOverrides } from './overrides.js'

const PLACES = { algorithm: 'concurrency', max: 5 }
const RATE = '10/second'

function compile(...rules: readonly object[]): Snapshot {
  const parsed = parseRules(rules.map((rule, i) => ({ id: `r${i}`, by: [], ...rule })))
  if (parsed.rules === undefined) throw new Error(parsed.errors[0]?.message)
  return compileRules(parsed.rules, { secret: sipKey(new Uint8Array(16)) })
}

/** The rules that match a call whose end nobody sees, with the algorithms of their limits. */
function unseen(snapshot: Snapshot): readonly (readonly string[])[] {
  const matched = withoutPlaces(matchRules(snapshot, { attributes: {} }))
  return matched.map(({ rule, limits, candidate = [] }) => [
    rule.id,
    ...limits.map(({ limit }) => limit.algorithm),
    ...candidate.map(({ limit }) => `candidate ${limit.algorithm}`),
  ])
}

describe('a call whose end nobody sees', () => {
  test('meets only the limits of a rule that count no calls in flight', () => {
    expect(unseen(compile({ limits: [RATE, PLACES] }))).toEqual([['r0', 'token-bucket']])
  })

  test('does not match a rule that counts only calls in flight', () => {
    expect(unseen(compile({ limits: [PLACES] }, { limits: [RATE] }))).toEqual([
      ['r1', 'token-bucket'],
    ])
  })

  test('leaves a candidate out that counts only calls in flight', () => {
    const both = { limits: [RATE], candidate: { limits: [PLACES] } }
    expect(unseen(compile(both))).toEqual([['r0', 'token-bucket']])
    const other = { limits: [PLACES], candidate: { limits: [PLACES, RATE] } }
    expect(unseen(compile(other))).toEqual([['r0', 'candidate token-bucket']])
  })

  test('meets the rules of a set without such limits unchanged', () => {
    const matched = matchRules(compile({ limits: [RATE] }), { attributes: {} })
    expect(withoutPlaces(matched)).toBe(matched)
  })
})

describe('a snapshot tells whether a rule counts calls in flight', () => {
  test.each([
    ['in its limits', { limits: [PLACES] }],
    ['in a tier', { limits: [RATE], tiers: { plan: { pro: [PLACES] } } }],
    ['in its candidate', { limits: [RATE], candidate: { limits: [PLACES] } }],
    [
      'in a tier of its candidate',
      { limits: [RATE], candidate: { limits: [RATE], tiers: { plan: { pro: [PLACES] } } } },
    ],
    ['in an override', { limits: [RATE], overrides: [{ caller: {}, limits: [PLACES] }] }],
  ])('%s', (_, rule) => {
    expect(compile(rule).needs.places).toBe(true)
    expect(compile({ ...rule, mode: 'off' }).needs.places).toBe(false)
    expect(compile({ ...rule, mode: 'off' }).allNeeds.places).toBe(true)
    expect(compile({ limits: [RATE] }).allNeeds.places).toBe(false)
  })

  test('also in an override that is set later', () => {
    const snapshot = compile({ limits: [RATE] })
    const caller = new Map<string, string>()
    const limits = [{ algorithm: 'concurrency', max: 3, windowMs: 0 } as const]
    const override = { caller, limits, untilMs: undefined }
    const changed = changeOverrides(snapshot, [{ rule: 'r0', caller, override }])
    expect(changed.snapshot.needs.places).toBe(true)
  })
})

test('a planned take names the holder of its places, and no other take does', () => {
  const snapshot = compile({ limits: [RATE, PLACES] })
  const call = { attributes: {} }
  const { groups } = planCall(matchRules(snapshot, call), call, { canWait: true, holder: 7 })
  expect(groups[0]?.map(({ holder }) => holder)).toEqual([undefined, 7])
})
