/** Statistics and alerts of nodes that a test sets. */
import type { Alert, Alerts } from '../../observability/alerts/alert.js'
import type { StatsView, TickView, TopView } from '../../observability/stats/stats-views.js'
import type { FleetStatsReader } from './admin-deps.js'

const AT = '2026-01-01T00:00:00.000Z'
export const END_MS = Date.parse(AT)

const STORE = {
  name: 'memory',
  state: 'memory: 3 counters',
  isWell: true,
  counters: 3,
  memoryBytes: 144,
  memoryMaxBytes: null,
  evicted: 0,
  nodes: [],
}

const SERIES = {
  stepMs: 2000,
  endMs: END_MS,
  allowed: [1, 2],
  refused: [0, 1],
  shadowRefused: [0, 0],
  degraded: [0, 0],
}

const LATENCY = { p50Ms: [null, 0.1], p99Ms: [null, 0.4] }

const IN_FLIGHT = [
  {
    rule: 'backend',
    inFlight: 30,
    peak: 42,
    max: 80,
    isPerNode: true,
    isPerCaller: false,
    ceilings: [{ priority: 'reads', ceiling: 72 }],
  },
]

const STATS: StatsView = {
  at: AT,
  nodes: 1,
  isWhole: true,
  rulesVersion: 1,
  series: SERIES,
  decisionLatency: LATENCY,
  storeLatency: LATENCY,
  minutes: { ...SERIES, stepMs: 60_000 },
  store: STORE,
  rules: [
    {
      rule: 'per-user',
      series: { ...SERIES, stepMs: 10_000 },
      candidate: null,
      refusingSince: AT,
      callers: 7,
      left: [1, 0, 0, 0, 0, 2],
    },
  ],
  priorities: [
    { priority: 'critical', admitted: [1, 1], shed: [0, 0], shadowShed: [0, 0] },
    { priority: 'reads', admitted: [0, 1], shed: [0, 1], shadowShed: [0, 0] },
  ],
  inFlight: IN_FLIGHT,
}

export const TICK: TickView = {
  at: AT,
  rulesVersion: 1,
  nodes: 1,
  isWhole: true,
  endMs: END_MS,
  allowed: 2,
  refused: 1,
  shadowRefused: 0,
  degraded: 0,
  decisionP50Ms: 0.1,
  decisionP99Ms: 0.4,
  storeP50Ms: null,
  storeP99Ms: null,
  store: STORE,
  rules: [],
  priorities: [
    { priority: 'critical', admitted: 1, shed: 0, shadowShed: 0 },
    { priority: 'reads', admitted: 1, shed: 1, shadowShed: 0 },
  ],
  inFlight: IN_FLIGHT,
}

const TOP: TopView = {
  shed: [{ priority: 'reads', perSecond: 1.5, share: 0.25 }],
  at: AT,
  since: AT,
  by: 'refusals',
  nodes: 1,
  isWhole: true,
  callers: [
    {
      rule: 'per-user',
      caller: { user: 'u1' },
      hash: '00ff',
      plan: null,
      isEverybody: false,
      lastRefusedCall: 'GET /v1/orders/:id',
      refusals: 3,
      shadowRefusals: 0,
      candidateRefusals: 2,
      use: 2,
      error: 0,
      zeroSince: AT,
      lastSeen: AT,
      hoursAtLimit: 1,
    },
  ],
}

export const BOARD_NODE = {
  id: 'node-2',
  host: 'other',
  pid: 2,
  release: '1.2.3',
  rulesVersion: 5,
  startedAt: AT,
  seenMsAgo: 900,
  decisionsPerSecond: 12.5,
  refusalsPerSecond: 0.5,
  clockOffsetMs: null,
  store: 'memory',
}

export interface FakeFleetStats extends FleetStatsReader {
  /** The calls it received, as text. */
  readonly requests: string[]
}

export function fakeFleetStats(more: Partial<FleetStatsReader> = {}): FakeFleetStats {
  const requests: string[] = []
  return {
    requests,
    stats: async (rule) => {
      requests.push(`stats ${rule}`)
      return STATS
    },
    top: async (by, { rule, limit }) => {
      requests.push(`top ${by} ${rule} ${limit}`)
      return { ...TOP, by }
    },
    nodes: async () => [],
    alerts: async () => ({ active: [], recent: [] }),
    tick: async () => {
      requests.push('tick')
      return TICK
    },
    ...more,
  }
}

export const ALERT: Alert = {
  id: 'degraded:per-user',
  alert: 'degraded',
  severity: 'page',
  subject: 'per-user',
  summary: 'A posture decides calls of per-user.',
  details: { share: 0.5, nodes: ['node-1'] },
  since: AT,
  resolvedAt: null,
  node: 'node-1',
  runbook: 'docs/guides/runbook.md#degraded',
}

export interface FakeAlerts extends Pick<Alerts, 'onChange'> {
  /** Notifies all listeners. */
  change(alert: Alert): void
  listeners(): number
}

export function fakeAlerts(): FakeAlerts {
  const listeners = new Set<(alert: Alert) => void>()
  return {
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    change: (alert) => listeners.forEach((listener) => listener(alert)),
    listeners: () => listeners.size,
  }
}
