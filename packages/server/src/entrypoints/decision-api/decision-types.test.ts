/**
 * The types of decisions in the library and in the API are the same. Neither imports the other: the
 * library needs no schemas, and the API is used without the library. `npm run types` fails where
 * they differ.
 */
import {
  type AttributesInput,
  type DecisionReason,
  type DecisionSource,
  type DecisionView,
  decisionView,
  type ExplainedView,
  explainedView,
  type LimitExplanation,
  type PolicyView,
  type PostureName,
  type RefusalView,
} from '@sluice/api'
import type * as core from '@sluice/core'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { closeAfterTests, startApi } from './decision-api.test-helper.js'

closeAfterTests()

/** The fields of a decision that JSON has; its methods are for the process that decided. */
type DecisionFields = {
  [Key in keyof core.Decision as NonNullable<core.Decision[Key]> extends (...args: never) => unknown
    ? never
    : Key]: core.Decision[Key]
}

type CoreRule = core.RuleExplanation
type CoreLimit = CoreRule['limits'][number]
/** The API leaves the set of algorithms open, and names only the start that is ever shown. */
type SentLimit = Omit<CoreLimit, 'algorithm' | 'start'> &
  Pick<LimitExplanation, 'algorithm' | 'start'>
type SentRule = Omit<CoreRule, 'limits'> & { readonly limits: readonly SentLimit[] }

/** Merges an intersection into one object type, so that two types can be compared. */
type Merged<T> = T extends (infer Item)[] | readonly (infer Item)[]
  ? readonly Merged<Item>[]
  : T extends object
    ? { [Key in keyof T]: Merged<T[Key]> }
    : T

describe('the types of the decision API', () => {
  test('have the words of the library', () => {
    expectTypeOf<DecisionReason>().toEqualTypeOf<core.Reason>()
    expectTypeOf<DecisionSource>().toEqualTypeOf<core.Source>()
    expectTypeOf<PostureName>().toEqualTypeOf<core.PostureName>()
  })

  test('have the fields of a decision of the library', () => {
    // Only a reservation has a handle; it is no field of other decisions of the library.
    expectTypeOf<Merged<Omit<DecisionView, 'policies' | 'reservation'>>>().toEqualTypeOf<
      Merged<Omit<DecisionFields, 'explain'>>
    >()
  })

  test('have the fields of a policy of the library', () => {
    // `limits` alone sets the route. The API leaves the set of algorithms open.
    type Shared = Omit<core.Policy, 'route' | 'algorithm' | 'start'>
    expectTypeOf<Omit<PolicyView, 'algorithm' | 'start'>>().toEqualTypeOf<Shared>()
    expectTypeOf<core.Policy['algorithm']>().toExtend<PolicyView['algorithm']>()
  })

  test('have the fields of an explanation of the library', () => {
    expectTypeOf<Merged<ExplainedView['explain'][number]>>().toEqualTypeOf<Merged<SentRule>>()
    expectTypeOf<CoreLimit['algorithm']>().toExtend<LimitExplanation['algorithm']>()
  })

  test('have the fields of a refusal of the library', () => {
    expectTypeOf<RefusalView>().toEqualTypeOf<core.ProblemBody>()
  })

  test('have attributes that the library takes', () => {
    expectTypeOf<AttributesInput>().toExtend<core.Attributes>()
  })
})

const RULES = [
  {
    id: 'per-user',
    by: ['user'],
    limits: ['2/minute', { algorithm: 'fixed-window', max: 3, window: '1h' }],
  },
  { id: 'tried', by: ['ip'], limits: ['1/hour'], mode: 'shadow' },
]

describe('a decision over HTTP', () => {
  test('has exactly the fields of the schema, allowed, refused, unmatched and explained', async () => {
    const api = await startApi({ rules: RULES })
    const call = { attributes: { user: 'u1', ip: '203.0.113.7' } }
    const bodies: unknown[] = []
    for (const receipt of [true, true, false]) {
      bodies.push((await api.post('/v1/check', { ...call, receipt, policies: receipt })).body)
    }
    bodies.push((await api.post('/v1/peek', { attributes: {} })).body)
    expect(bodies.map((sent) => decisionView.strict().parse(sent))).toEqual(bodies)
    const reasons = bodies.map((sent) => (sent as DecisionView).reason)
    expect(reasons).toEqual(['within', 'within', 'over', 'unmatched'])
    const { body } = await api.post('/v1/explain', call)
    expect(explainedView.strict().parse(body)).toEqual(body)
  })
})
