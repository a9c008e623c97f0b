/** What the admin API tells of what nodes see: figures, top callers, alerts, trials, sessions. */
import { z } from '@hono/zod-openapi'
import { strictObject } from './operation.js'
import { ALERT_NAMES } from '../../observability/alerts/alert-kinds.js'

const count = z.number().min(0)
const instant = z.string().openapi({ example: '2026-01-01T00:00:00.000Z' })
const counts = z.array(count)
const share = z.number().nullable()
const isWhole = z.boolean().openapi({
  description: 'False: what other nodes saw could not be read; this is of one process alone.',
})

const seriesView = z
  .object({
    stepMs: z.int(),
    endMs: z.int().openapi({ description: 'When the last step ended, in ms since 1970.' }),
    allowed: counts,
    refused: counts,
    shadowRefused: counts,
    degraded: counts.openapi({ description: 'Decided by a posture; also one of the others.' }),
  })
  .openapi('Series', { description: 'Counts by steps of time, the oldest first.' })

const latencyView = z
  .object({ p50Ms: z.array(share), p99Ms: z.array(share) })
  .openapi('Latency', { description: 'For each step; null: there were none.' })

const storeNodeView = z
  .object({
    address: z.string(),
    isAnswering: z.boolean(),
    isBreakerOpen: z.boolean(),
    clockOffsetMs: z.number().nullable(),
  })
  .openapi('StoreNode')

const storeView = z
  .object({
    name: z.string(),
    state: z.string(),
    isWell: z.boolean(),
    counters: count.nullable(),
    memoryBytes: count.nullable(),
    memoryMaxBytes: count.nullable(),
    evicted: count,
    nodes: z.array(storeNodeView),
  })
  .openapi('Store')

const ruleStatsView = z
  .object({
    rule: z.string(),
    series: seriesView,
    candidate: z.union([seriesView, z.null()]),
    refusingSince: instant.nullable(),
    callers: count.nullable(),
    left: counts.openapi({
      description: 'Decisions that left 0, up to 10 %, 25 %, 50 %, 75 %, and more of the limit.',
    }),
  })
  .openapi('RuleStats')

export const statsView = z
  .object({
    at: instant,
    nodes: count,
    isWhole,
    rulesVersion: z.int().min(0),
    series: seriesView,
    decisionLatency: latencyView,
    storeLatency: latencyView,
    minutes: seriesView,
    store: storeView,
    rules: z.array(ruleStatsView),
  })
  .openapi('Stats', { description: 'What all nodes saw of their decisions.' })

const TOP_ORDERS = ['refusals', 'use', 'zero', 'hours', 'shadow'] as const
export const topOrder = z.enum(TOP_ORDERS, TOP_ORDERS.join(', '))

const topCallerView = z
  .object({
    rule: z.string(),
    caller: z.record(z.string(), z.string()).openapi({
      description:
        'As the rule counts it. Empty: everybody together, or a caller that this node knows only by its hash.',
    }),
    hash: z.string(),
    isEverybody: z.boolean().openapi({
      description: 'The rule has one counter for all of its calls.',
    }),
    plan: z.string().nullable(),
    lastRefusedCall: z.string().nullable().openapi({
      description:
        'A call of it that was refused lately, or would have been: method, and route or path, up to 97 characters.',
      example: 'GET /v1/orders/:id',
    }),
    refusals: count,
    use: count,
    shadowRefusals: count.openapi({
      description: 'Calls that passed and that the rule, which is in shadow, would have refused.',
    }),
    candidateRefusals: count.openapi({
      description: 'Calls that passed and that the candidate of the rule would have refused.',
    }),
    error: count.openapi({ description: 'By how much the figure may be too high.' }),
    zeroSince: instant.nullable(),
    lastSeen: instant,
    hoursAtLimit: count,
  })
  .openapi('TopCaller')

export const topView = z
  .object({
    at: instant,
    since: instant,
    by: topOrder,
    nodes: count,
    isWhole,
    callers: z.array(topCallerView),
  })
  .openapi('Top')

const alertName = z.enum(ALERT_NAMES)

const alertView = z
  .object({
    id: z.string(),
    alert: alertName,
    severity: z.enum(['page', 'ticket']),
    subject: z.string(),
    summary: z.string(),
    details: z.record(z.string(), z.union([z.string(), z.number(), z.array(z.string())])),
    since: instant,
    resolvedAt: instant.nullable(),
    node: z.string(),
    runbook: z.string(),
  })
  .openapi('Alert')

export const alertsView = z
  .object({ active: z.array(alertView), recent: z.array(alertView) })
  .openapi('Alerts')

const ruleTickView = z
  .object({
    rule: z.string(),
    endMs: z.int(),
    allowed: count,
    refused: count,
    shadowRefused: count,
    candidateAllowed: count,
    candidateRefused: count,
    refusingSince: instant.nullable(),
  })
  .openapi('RuleTick')

const tickView = z
  .object({
    at: instant,
    rulesVersion: z.int().min(0),
    nodes: count,
    isWhole,
    endMs: z.int(),
    allowed: count,
    refused: count,
    shadowRefused: count,
    degraded: count,
    decisionP50Ms: share,
    decisionP99Ms: share,
    storeP50Ms: share,
    storeP99Ms: share,
    store: storeView,
    alertsActive: count,
    rules: z.array(ruleTickView),
  })
  .openapi('Tick')

export const eventView = z
  .union([
    z.object({ event: z.literal('tick'), data: tickView }),
    z.object({ event: z.literal('rules'), data: z.object({ version: z.int().min(0) }) }),
    z.object({ event: z.literal('alert'), data: alertView }),
  ])
  .openapi('Event', { description: 'The name of an event, and its data as JSON.' })

export const sessionView = z
  .object({
    name: z.string(),
    role: z.enum(['read', 'edit', 'admin']),
    expiresAt: instant,
    csrf: z.string().openapi({ description: 'To be sent as `X-Sluice-Csrf` with every change.' }),
  })
  .openapi('Session')

export const sessionEnded = z.object({ ended: z.literal(true) }).openapi('SessionEnded')

const ACCEPTED_TOKEN = 'a token of the admin API, 1 to 1,024 characters'

export const sessionInput = strictObject({
  token: z.string(ACCEPTED_TOKEN).min(1, ACCEPTED_TOKEN).max(1024, ACCEPTED_TOKEN),
}).openapi('SessionInput')

const TRIAL_LIMITS_MAX = 12
const TRIAL_CALLS_MAX = 2000
/** A year: no window is longer. */
const TRIAL_MS_MAX = 366 * 86_400_000
const TRIAL_COST_MAX = 999_999_999_999_999
const ACCEPTED_LIMITS = `1 to ${TRIAL_LIMITS_MAX} limits`
const ACCEPTED_CALLS = `a list of up to ${TRIAL_CALLS_MAX} calls`
const ACCEPTED_AT = `milliseconds from the beginning, a whole number from 0 to ${TRIAL_MS_MAX}`
const ACCEPTED_COST = `a whole number from 0 to ${TRIAL_COST_MAX}`

const trialCall = strictObject({
  atMs: z.int(ACCEPTED_AT).min(0, ACCEPTED_AT).max(TRIAL_MS_MAX, ACCEPTED_AT),
  cost: z.int(ACCEPTED_COST).min(0, ACCEPTED_COST).max(TRIAL_COST_MAX, ACCEPTED_COST).optional(),
})

export const simulateInput = strictObject({
  limits: z
    .array(z.unknown(), ACCEPTED_LIMITS)
    .min(1, ACCEPTED_LIMITS)
    .max(TRIAL_LIMITS_MAX, ACCEPTED_LIMITS),
  calls: z.array(trialCall, ACCEPTED_CALLS).max(TRIAL_CALLS_MAX, ACCEPTED_CALLS),
}).openapi('TrialInput', {
  example: { limits: ['10/second'], calls: [{ atMs: 0 }, { atMs: 100, cost: 2 }] },
})

const trialOutcome = z
  .object({
    allowed: z.boolean(),
    delayMs: count,
    remaining: z.number(),
    retryAfterMs: count.nullable(),
  })
  .openapi('TrialOutcome')

export const simulateView = z
  .object({
    trials: z.array(
      z.object({
        limit: z.string(),
        algorithm: z.string(),
        outcomes: z.array(trialOutcome).openapi({ description: 'Beside each call.' }),
      }),
    ),
  })
  .openapi('Trial')
