/** Operations on statistics, alerts and events, and the simulation of limits. */
import { simulateLimits } from '../../../rules/editor/simulate-limits.js'
import { checkedBody, operation, type Operation } from '../operation.js'
import { invalid } from '../admin-error.js'
import { text, topLimit } from '../query-parameters.js'
import {
  alertsView,
  eventView,
  statsView,
  topOrder,
  topView,
  simulationInput,
  simulationView,
} from '@sluice/api'
import type { EventStreams } from '../event-streams.js'
import { BASE, findRule } from './operation-helpers.js'

const tag = 'Stats'
const rule = text.meta({ description: 'Of one rule only.' })

const getStats = operation({
  method: 'get',
  path: `${BASE}/stats`,
  id: 'getStats',
  tag,
  summary: 'Say what all nodes saw of their decisions',
  description: 'By steps of time. Of the busiest rules, or of the one that is named.',
  role: 'read',
  query: { rule },
  answers: [{ status: 200, description: 'The figures.', schema: statsView }],
  async run({ query }, { fleetStats, ruleFollower: { catalog: book } }) {
    if (query.rule !== undefined) findRule(book, query.rule)
    return { status: 200, body: await fleetStats.stats(query.rule) }
  },
})

const listTop = operation({
  method: 'get',
  path: `${BASE}/top`,
  id: 'listTop',
  tag,
  summary: 'List the callers with most refusals, most use, or at their limit for longest',
  description:
    'By `refusals` (then would-be ones), `use`, `zero` (longest without anything left), `hours`, or `shadow` (most would-be refusals).',
  role: 'read',
  query: {
    by: topOrder.default('refusals').meta({ description: 'The order.' }),
    rule,
    limit: topLimit,
  },
  answers: [{ status: 200, description: 'The callers.', schema: topView }],
  async run({ query }, { fleetStats, ruleFollower: { catalog: book } }) {
    if (query.rule !== undefined) findRule(book, query.rule)
    const filter = { rule: query.rule, limit: query.limit }
    return { status: 200, body: await fleetStats.top(query.by, filter) }
  },
})

const listAlerts = operation({
  method: 'get',
  path: `${BASE}/alerts`,
  id: 'listAlerts',
  tag,
  summary: 'List alerts that go on, and those that ended lately',
  role: 'read',
  answers: [{ status: 200, description: 'The alerts.', schema: alertsView }],
  run: async (_request, { fleetStats }) => ({
    status: 200,
    body: await fleetStats.alerts(),
  }),
})

const simulateOperation = operation({
  method: 'post',
  path: `${BASE}/simulate`,
  id: 'simulateLimits',
  tag,
  summary: 'Say what limits would do with made-up calls',
  description: 'Each limit alone, with a counter of its own. Nothing is spent or kept.',
  role: 'read',
  body: checkedBody(simulationInput),
  answers: [{ status: 200, description: 'What each said to each call.', schema: simulationView }],
  async run({ body: { limits, calls } }) {
    const late = calls.findIndex(({ atMs }, i) => atMs < (calls[i - 1]?.atMs ?? 0))
    if (late !== -1) {
      const found = `${calls[late]?.atMs} after ${calls[late - 1]?.atMs}`
      throw invalid(`body.calls[${late}].atMs`, found, 'calls in the order of their times')
    }
    return { status: 200, body: { trials: await simulateLimits(limits, calls) } }
  },
})

export const STATS_OPERATIONS: readonly Operation[] = [
  getStats,
  listTop,
  listAlerts,
  simulateOperation,
]

/** Keeps proxies from buffering the stream. */
const STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'X-Accel-Buffering': 'no',
}

export function eventsOperation(events: EventStreams): Operation {
  return operation({
    method: 'get',
    path: `${BASE}/events`,
    id: 'followEvents',
    tag,
    summary: 'Follow figures, changes of rules and alerts as they come',
    description: 'Server-sent events; ends when the token or the session does.',
    role: 'read',
    answers: [
      { status: 200, description: 'A stream.', schema: eventView, type: 'text/event-stream' },
    ],
    run({ sender }) {
      const body = sender.isHead ? '' : events.open(sender)
      return { status: 200, body, headers: STREAM_HEADERS }
    },
  })
}
