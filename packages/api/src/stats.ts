/** Statistics of all nodes: time series, top callers, and the event stream. */
import { z } from 'zod'
import { alertView } from './alerts.js'
import { count, instant, type View } from './schema.js'

const counts = z.array(count)
const share = z.number().nullable()
const isWhole = z.boolean().meta({
  description:
    'False if the statistics of other nodes could not be read; these are of one process.',
})

export const seriesView = z
  .object({
    stepMs: z.int(),
    endMs: z.int().meta({ description: 'End of the last step, in milliseconds since 1970.' }),
    allowed: counts,
    refused: counts,
    shadowRefused: counts,
    degraded: counts.meta({
      description:
        'Decided by the fallback of the rule (`posture`); also counted in one of the other lists.',
    }),
  })
  .meta({ id: 'Series', description: 'Counts per time step, oldest first.' })
export type SeriesView = View<typeof seriesView>

export const latencyView = z
  .object({ p50Ms: z.array(share), p99Ms: z.array(share) })
  .meta({ id: 'Latency', description: 'Per time step; null if there were no decisions.' })
export type LatencyView = View<typeof latencyView>

export const storeNodeView = z
  .object({
    address: z.string(),
    isAnswering: z.boolean(),
    isBreakerOpen: z.boolean(),
    clockOffsetMs: z.number().nullable(),
  })
  .meta({ id: 'StoreNode' })
export type StoreNodeView = View<typeof storeNodeView>

export const storeView = z
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
  .meta({ id: 'Store' })
export type StoreView = View<typeof storeView>

export const ruleStatsView = z
  .object({
    rule: z.string(),
    series: seriesView,
    candidate: z.union([seriesView, z.null()]),
    refusingSince: instant.nullable(),
    callers: count.nullable(),
    left: counts.meta({
      description: 'Decisions that left 0, up to 10 %, 25 %, 50 %, 75 %, and more of the limit.',
    }),
  })
  .meta({ id: 'RuleStats' })
export type RuleStatsView = View<typeof ruleStatsView>

export const priorityStatsView = z
  .object({
    priority: z.string(),
    admitted: counts,
    shed: counts.meta({ description: 'Refused to protect capacity.' }),
    shadowShed: counts.meta({
      description: 'Admitted calls that would have been shed, by rules or `shed` in shadow mode.',
    }),
  })
  .meta({
    id: 'PriorityStats',
    description: 'Calls of one priority, per time step of `series`, with the same end.',
  })
export type PriorityStatsView = View<typeof priorityStatsView>

export const inFlightView = z
  .object({
    rule: z.string(),
    inFlight: count,
    peak: count.meta({ description: 'The most in the last hour, measured once a second.' }),
    max: count,
    isPerNode: z.boolean().meta({
      description: 'Each node has `max` for itself; the figures are those of the busiest node.',
    }),
    isPerCaller: z.boolean().meta({
      description: 'Each caller has `max` for itself; the figures are those of all callers.',
    }),
    ceilings: z.array(z.object({ priority: z.string(), ceiling: count })).meta({
      description: 'How much of `max` less important priorities may use.',
    }),
  })
  .meta({ id: 'InFlight', description: 'Calls in flight against the limit of a rule.' })
export type InFlightView = View<typeof inFlightView>

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
    priorities: z.array(priorityStatsView).meta({
      description: 'The most important first; empty if the rule set has none.',
    }),
    inFlight: z.array(inFlightView),
  })
  .meta({ id: 'Stats', description: 'Statistics of the decisions of all nodes.' })
export type StatsView = View<typeof statsView>

const TOP_ORDERS = ['refusals', 'use', 'zero', 'hours', 'shadow'] as const

export const topOrder = z.enum(TOP_ORDERS, TOP_ORDERS.join(', '))
export type TopOrder = View<typeof topOrder>

export const topCallerView = z
  .object({
    rule: z.string(),
    caller: z.record(z.string(), z.string()).meta({
      description:
        'The attributes that the rule counts by. Empty if the rule counts all calls together, or if only the hash is known.',
    }),
    hash: z.string(),
    isEverybody: z.boolean().meta({
      description: 'The rule has one counter for all of its calls.',
    }),
    plan: z.string().nullable(),
    lastRefusedCall: z.string().nullable().meta({
      description:
        'A recent call that was refused, or would have been: method and route or path, up to 97 characters.',
      example: 'GET /v1/orders/:id',
    }),
    refusals: count,
    use: count,
    shadowRefusals: count.meta({
      description: 'Admitted calls that the rule, in shadow, would have refused.',
    }),
    candidateRefusals: count.meta({
      description: 'Admitted calls that the candidate of the rule would have refused.',
    }),
    error: count.meta({ description: 'Upper bound of the overestimate of the figure.' }),
    zeroSince: instant.nullable(),
    lastSeen: instant,
    hoursAtLimit: count,
  })
  .meta({ id: 'TopCaller' })
export type TopCallerView = View<typeof topCallerView>

export const topView = z
  .object({
    at: instant,
    since: instant,
    by: topOrder,
    nodes: count,
    isWhole,
    callers: z.array(topCallerView),
    shed: z
      .array(z.object({ priority: z.string(), perSecond: count, share: z.number().min(0).max(1) }))
      .meta({
        description:
          'Priorities of which calls were shed in the last ten seconds, the most important first.',
      }),
  })
  .meta({ id: 'Top' })
export type TopView = View<typeof topView>

export const ruleTickView = z
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
  .meta({ id: 'RuleTick' })
export type RuleTickView = View<typeof ruleTickView>

export const priorityTickView = z
  .object({ priority: z.string(), admitted: count, shed: count, shadowShed: count })
  .meta({ id: 'PriorityTick' })
export type PriorityTickView = View<typeof priorityTickView>

export const tickView = z
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
    priorities: z.array(priorityTickView),
    inFlight: z.array(inFlightView),
  })
  .meta({ id: 'Tick' })
export type TickView = View<typeof tickView>

export const eventView = z
  .union([
    z.object({ event: z.literal('tick'), data: tickView }),
    z.object({ event: z.literal('rules'), data: z.object({ version: z.int().min(0) }) }),
    z.object({ event: z.literal('alert'), data: alertView }),
  ])
  .meta({ id: 'Event', description: 'The name of an event, and its data as JSON.' })
export type EventView = View<typeof eventView>
