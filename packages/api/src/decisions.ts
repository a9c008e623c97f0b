/**
 * The decision API: the calls that it takes, its decisions and explanations, and its problems.
 *
 * `POST /v1/check` and `/v1/peek` are read by `decision-api/read-call.ts` of the server, because a
 * schema takes several times as long. A test there holds that reader to these schemas.
 */
import { z } from 'zod'
import { type Input, strictObject, type View } from './schema.js'

/** The most calls of one list. */
export const CALLS_MAX = 1000
/** Far more than any rule set reads; each one costs memory and time. */
export const ATTRIBUTES_MAX = 64
export const ATTRIBUTE_NAME_LENGTH_MAX = 64
/** The same as in the library, which refuses longer values of callers. */
const ATTRIBUTE_LENGTH_MAX = 8192

/**
 * Text of a length in UTF-16 code units, which are what the server and the library count. `max` of
 * zod, like `maxLength` of JSON Schema, counts a pair of surrogates as one.
 */
const textUpTo = (most: number) =>
  z
    .string()
    .refine(({ length }) => length <= most)
    .meta({ maxLength: most })

const attributeName = textUpTo(ATTRIBUTE_NAME_LENGTH_MAX).min(1)

const attributeValue = z.union([
  textUpTo(ATTRIBUTE_LENGTH_MAX),
  // A number with more digits is rounded when it is parsed, and could be that of another caller.
  z.number().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
  z.boolean(),
  z.null(),
])

export const attributesInput = z
  .record(attributeName, attributeValue)
  .refine((all) => Object.keys(all).length <= ATTRIBUTES_MAX, `up to ${ATTRIBUTES_MAX} names`)
  .meta({
    id: 'Attributes',
    description: 'What is known of the call. Null and empty text are absent.',
    maxProperties: ATTRIBUTES_MAX,
    example: { user: 'u1', path: '/v1/orders' },
  })
export type AttributesInput = Input<typeof attributesInput>

const cost = z.int().min(0).optional().meta({
  description: 'How much the call takes, 1 unless given. 0 always passes and is not counted.',
})

const gate = z.boolean().optional().meta({
  description:
    'True if the call only passes through gates: nothing is charged, its cost is ignored, and it is refused where a limit has nothing left.',
})

const policies = z.boolean().optional().meta({
  description: 'Whether the decision lists every enforced limit.',
})

export const callInput = strictObject({ attributes: attributesInput, cost }).meta({
  id: 'Call',
  example: { attributes: { user: 'u1', path: '/v1/orders' } },
})
export type CallInput = Input<typeof callInput>

/** A call that the admin API decides. */
export const adminCheckInput = strictObject({ attributes: attributesInput, cost, gate }).meta({
  id: 'AdminCheckCall',
  example: { attributes: { user: 'u1', path: '/v1/orders' } },
})
export type AdminCheckInput = Input<typeof adminCheckInput>

export const checkInput = strictObject({
  attributes: attributesInput,
  cost,
  receipt: z
    .union([z.boolean(), z.literal('if-delayed')])
    .optional()
    .meta({
      description:
        'Whether an admission that takes something has a receipt, for a refund; `if-delayed`: only if it has to be held.',
    }),
  canWait: z.boolean().optional().meta({
    description: 'False if the call cannot be held; then a delay is a refusal. True unless given.',
  }),
  gate,
  policies,
}).meta({ id: 'CheckCall', example: { attributes: { user: 'u1', path: '/v1/orders' }, cost: 1 } })
export type CheckInput = Input<typeof checkInput>

export const peekInput = strictObject({ attributes: attributesInput, cost, policies }).meta({
  id: 'PeekCall',
  example: { attributes: { user: 'u1', path: '/v1/orders' } },
})
export type PeekInput = Input<typeof peekInput>

export const receiptInput = strictObject({ receipt: z.string() }).meta({ id: 'Receipt' })
export type ReceiptInput = Input<typeof receiptInput>

export const refundInput = z.union([receiptInput, callInput])
export type RefundInput = Input<typeof refundInput>

export const resetInput = strictObject({
  attributes: attributesInput,
  rule: z.string().optional().meta({ description: 'Only this rule.' }),
}).meta({ id: 'ResetCall', example: { attributes: { user: 'u1' }, rule: 'per-user' } })
export type ResetInput = Input<typeof resetInput>

/** Longer keys would only cost time to hash. */
export const IDEMPOTENCY_KEY_LENGTH_MAX = 256

const idempotencyKey = textUpTo(IDEMPOTENCY_KEY_LENGTH_MAX).min(1).optional()

export const reserveInput = strictObject({
  attributes: attributesInput,
  cost,
  ttl: z.union([z.string(), z.int()]).optional().meta({
    description:
      'How long the reservation lasts: a duration such as `90s`, or milliseconds; 1s to 1h, 60s unless given.',
  }),
  idempotencyKey: idempotencyKey.meta({
    description: 'The same caller with the same key gets the same reservation, charged once.',
  }),
  canWait: z.boolean().optional().meta({
    description: 'False if the call cannot be held; then a delay is a refusal. True unless given.',
  }),
  policies,
}).meta({ id: 'ReserveCall', example: { attributes: { user: 'u1', tokens: 800 }, ttl: '5m' } })
export type ReserveInput = Input<typeof reserveInput>

const reservation = z.string().meta({ description: 'The handle that reserve or extend returned.' })

export const settleInput = strictObject({
  reservation,
  actual: z.union([z.int().min(0), z.record(attributeName, z.int().min(0))]).meta({
    description: 'What was used: a number, or one for each cost attribute.',
  }),
}).meta({ id: 'Settle', example: { reservation: 'r1~…', actual: 612 } })
export type SettleInput = Input<typeof settleInput>

export const extendInput = strictObject({
  reservation,
  attributes: attributesInput,
  idempotencyKey: idempotencyKey.meta({
    description: 'The same handle with the same key is extended once, and charged once.',
  }),
}).meta({
  id: 'Extend',
  description: 'The attributes name how much more of each cost is reserved.',
  example: { reservation: 'r1~…', attributes: { tokens: 200 } },
})
export type ExtendInput = Input<typeof extendInput>

export const cancelInput = strictObject({ reservation }).meta({ id: 'Cancel' })
export type CancelInput = Input<typeof cancelInput>

export const settlementReason = z.enum([
  'settled',
  'cancelled',
  'already-settled',
  'expired',
  'posture',
  'refused',
])
export type SettlementReason = View<typeof settlementReason>

const settledCost = z.object({
  charged: z.int().meta({
    description: 'Units that the call is charged for; 0 if an earlier request settled it.',
  }),
  givenBack: z.int().meta({ description: 'Units of the reserve that were given back.' }),
  owed: z.int().meta({
    description: 'Units beyond what the limits had left; calls are refused until they are paid.',
  }),
})

export const settlementView = z
  .object({
    settled: z.boolean().meta({ description: 'Whether this request ended the reservation.' }),
    reason: settlementReason,
    ...settledCost.shape,
    costs: z
      .record(z.string(), settledCost)
      .meta({ description: 'By cost attribute; `cost` where the rules have none.' }),
  })
  .meta({ id: 'Settlement' })
export type SettlementView = View<typeof settlementView>

export const decisionReason = z.enum([
  'within',
  'over',
  'blocked',
  'shed',
  'cost_exceeds_limit',
  'unmatched',
  'posture',
])
export type DecisionReason = View<typeof decisionReason>

export const decisionSource = z.enum(['store', 'lease', 'local', 'deny-cache', 'posture']).meta({
  description:
    'What decided: the store; this node, with units it drew ahead of time (`lease`), by counts of its own or the last known state (`local`), or by a refusal it remembers (`deny-cache`); or, because the store did not answer, the rules by their posture.',
})
export type DecisionSource = View<typeof decisionSource>

/** What a rule did because the store did not answer. */
export const postureName = z.enum(['open', 'closed', 'local'])
export type PostureName = View<typeof postureName>

/** The fields by which a limit shows that it is a calendar window. */
const calendarFields = {
  window: z.enum(['month', 'week', 'day']).optional().meta({
    description: 'Only for a calendar window, whose `windowMs` is its usual length.',
  }),
  zone: z.string().optional().meta({ description: 'The time zone of a calendar window.' }),
}

/** One enforced limit, as the headers of a decision show it. */
export const policyView = z
  .object({
    name: z.string().meta({ description: 'The name in `RateLimit-Policy`.' }),
    rule: z.string(),
    limitName: z.string(),
    // Not the names of today: a client goes on working with a server that has one more.
    algorithm: z.string(),
    start: z.literal('call').optional().meta({
      description: "Only for a fixed window that begins with the caller's first call.",
    }),
    ...calendarFields,
    limit: z.int(),
    windowMs: z.int().meta({ description: '0 for calls in flight, which have no window.' }),
    remaining: z.int(),
    resetAfterMs: z.int(),
    retryAfterMs: z
      .int()
      .nullable()
      .meta({ description: '0 if the limit has room; null if it never will.' }),
  })
  .meta({ id: 'Policy' })
export type PolicyView = View<typeof policyView>

export const decisionView = z
  .object({
    allowed: z.boolean(),
    reason: decisionReason,
    rule: z.string().nullable().meta({ description: 'The binding rule; null if there is none.' }),
    limitName: z.string().nullable(),
    limit: z.int().nullable(),
    remaining: z.int().nullable().meta({
      description: 'The last known value if `source` is `lease`, `local` or `deny-cache`.',
    }),
    resetAfterMs: z.int().nullable(),
    retryAfterMs: z
      .int()
      .nullable()
      .meta({ description: '0 if allowed; null if waiting does not help.' }),
    delayMs: z.int().meta({ description: 'How long an allowed call has to be held.' }),
    shadow: z.array(z.string()).meta({
      description: 'The shadow rules, and `<id>:candidate`, that would have refused.',
    }),
    source: decisionSource,
    priority: z.string().optional().meta({
      description: 'Only if the rule set has priorities: that of the call.',
    }),
    staleMs: z.int().min(0).optional().meta({
      description:
        'Age of the state that the decision used, in milliseconds; absent if the store decided.',
    }),
    postures: z.record(z.string(), postureName).optional().meta({
      description: 'Only if the store did not answer: the rules that decided by their posture.',
    }),
    receipt: z.string().optional().meta({
      description: 'On request: what an admission took, for a refund.',
    }),
    reservation: z.string().optional().meta({
      description: 'Only of a reserve that was admitted: the handle by which it is settled.',
    }),
    policies: z
      .array(policyView)
      .optional()
      .meta({ description: 'On request: every enforced limit.' }),
  })
  .meta({ id: 'Decision' })
export type DecisionView = View<typeof decisionView>

export const limitExplanation = z
  .object({
    name: z.string(),
    // Not the names of today: a client goes on working with a server that has one more.
    algorithm: z.string(),
    start: z.literal('call').optional().meta({
      description: "Only for a fixed window that begins with the caller's first call.",
    }),
    ...calendarFields,
    limit: z.int(),
    ceiling: z.int().optional().meta({
      description:
        'Only for a priority below others with headroom: how much of the limit it may use.',
    }),
    windowMs: z.int().meta({ description: '0 for calls in flight, which have no window.' }),
    candidate: z.boolean(),
    amount: z.int().meta({ description: 'The units that the call would take.' }),
    remaining: z.int(),
    resetAfterMs: z.int(),
    retryAfterMs: z
      .int()
      .nullable()
      .meta({ description: '0 if the limit has room; null if it never will.' }),
    delayMs: z.int(),
    state: z.unknown().meta({
      description: 'The state of the counter, in the form of its algorithm; null if not in use.',
    }),
    staleMs: z.int().min(0).meta({
      description: 'The age of the state when it was read; 0 if the store itself answered.',
    }),
    block: z
      .object({
        untilMs: z.int().nullable().meta({
          description: 'When the block ends, in milliseconds since 1970; null if there is none.',
        }),
        times: z.int().meta({ description: 'How many blocks in a row there were.' }),
      })
      .optional()
      .meta({ description: 'Only for a limit with `block`.' }),
    posture: postureName.optional().meta({
      description: 'Only if the store did not answer: what decided instead.',
    }),
  })
  .meta({ id: 'LimitExplanation' })
export type LimitExplanation = View<typeof limitExplanation>

export const ruleExplanation = z
  .object({
    rule: z.string(),
    matched: z.boolean(),
    why: z.string().nullable().meta({ description: 'Why it did not match; null if it did.' }),
    mode: z.enum(['enforce', 'shadow', 'off']),
    caller: z
      .string()
      .nullable()
      .meta({ description: 'The hash that identifies the caller in keys and logs.' }),
    override: z.record(z.string(), z.string()).nullable().meta({
      description: 'The caller of the override that applies; for `ip` perhaps a network.',
    }),
    note: z.string().optional().meta({
      description: 'Only for a rule that counts calls in flight: where it does.',
    }),
    limits: z.array(limitExplanation),
  })
  .meta({ id: 'RuleExplanation' })
export type RuleExplanation = View<typeof ruleExplanation>

export const explainedView = decisionView
  .extend({ explain: z.array(ruleExplanation) })
  .meta({ id: 'Explained', description: 'A decision with every rule of the set.' })
export type ExplainedView = View<typeof explainedView>

/** RFC 9457. */
export const problemDetails = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    error: z.string().meta({ description: 'A stable code for programs.' }),
  })
  .meta({ id: 'ProblemDetails', description: 'RFC 9457.' })
export type ProblemDetails = View<typeof problemDetails>

/** The body with which forward-auth, the gateway and the middlewares refuse a call. */
export const refusalView = z
  .object({
    ...problemDetails.shape,
    'violated-policies': z.array(z.string()),
    error: z.literal('rate_limited'),
    retry_after_seconds: z.int().min(1).optional(),
  })
  .meta({ id: 'Refusal', description: 'RFC 9457, with the types of the RateLimit draft.' })
export type RefusalView = View<typeof refusalView>

/** The result of one call of a list. A failed one has no effect on the others. */
export const decisionResult = z.union([decisionView, problemDetails])
export type DecisionResult = View<typeof decisionResult>

export const refundedView = z.object({ refunded: z.literal(true) }).meta({ id: 'Refunded' })
export type RefundedView = View<typeof refundedView>

export const resetView = z.object({ reset: z.literal(true) }).meta({ id: 'WasReset' })
export type ResetView = View<typeof resetView>

export const healthView = z.object({ status: z.literal('ok') }).meta({ id: 'Health' })
export type HealthView = View<typeof healthView>

export const readinessView = z
  .object({
    status: z.enum(['ready', 'not ready']),
    reasons: z.array(z.string()).meta({ description: 'Why it is not ready.' }),
    store: z.unknown().meta({ description: 'The state of the store.' }),
  })
  .meta({ id: 'Readiness' })
export type ReadinessView = View<typeof readinessView>
