/** A node that decides by real rules and records statistics, in virtual time. */
import type { Call, Decision } from '@sluice/core'
import { createLimiter } from '@sluice/limiter'
import { createDecisionMetrics } from '../metrics/decision-metrics.js'
import { HistogramSeries } from '../metrics/histogram.js'
import { createRegistry } from '../metrics/registry.js'
import type {
  NodeSnapshot,
  CallerSnapshot,
  SeriesSnapshot,
  ShadowCallerSnapshot,
  StoreSnapshot,
} from './node-snapshot.js'
import { NodeStats, type NodeStatsDeps } from './node-stats.js'

/** Divisible by every length of steps. */
export const BEGAN_MS = 1_800_000_000_000

export const WELL: StoreSnapshot = {
  name: 'memory',
  state: 'memory',
  isWell: true,
  counters: 3,
  memoryBytes: 1000,
  memoryMaxBytes: null,
  evicted: 0,
  nodes: [],
}

const RULES = `
  rules:
    - { id: tight, by: [user], limits: [2/hour] }
    - { id: tried, by: [user], limits: [1/hour], mode: shadow }
    - id: trial
      match: { where: { plan: trial } }
      by: [user]
      limits: [1000/hour]
      candidate: { limits: [1/hour] }
`

/** Recorded callers, one line each, instead of a caller tracker. */
interface RecordedCall {
  readonly rule: string
  readonly by: readonly string[]
  readonly outcome: string
  readonly left: number
  readonly cost: number
  readonly user: string
  readonly atMs: number
}

export interface TestNodeOptions {
  readonly id?: string
  readonly rules?: string
  readonly nowMs?: number
  readonly storeHealth?: () => StoreSnapshot
  readonly deps?: Partial<NodeStatsDeps>
}

export function makeNode(options: TestNodeOptions = {}) {
  const { id = 'n1', rules = RULES, nowMs = BEGAN_MS, storeHealth = () => WELL } = options
  const limiter = createLimiter({ rules, secret: new Uint8Array(16) })
  const metrics = createDecisionMetrics(createRegistry())
  const decisionTimes = new HistogramSeries([0.001, 0.01])
  const storeTimes = new HistogramSeries([0.001, 0.01])
  const calls: RecordedCall[] = []
  /** Would-be refusals: the rule, whether by its candidate, and the user. */
  const would: string[] = []
  const distinct = new Map<string, Set<string>>()
  const shares = new Map<string, HistogramSeries>()
  const ticks: number[] = []
  const stats = new NodeStats({
    node: { id, host: 'host', pid: 1, release: '1.0.0', startedAt: '2027-01-15T08:00:00.000Z' },
    rulesVersion: () => 7,
    metrics,
    decisionTimes,
    storeTimes,
    storeHealth,
    callers: {
      ofRule: (rule) => ({
        record(by, _caller, outcome, left, cost, { attributes: { user } }, atMs) {
          calls.push({ rule, by, outcome, left, cost, user: String(user), atMs })
        },
        recordShadowRefusal({ mode, call: { attributes } }) {
          would.push(`${rule} ${mode} ${String(attributes['user'])}`)
        },
      }),
      tick: (atMs) => void ticks.push(atMs),
      view: (): readonly CallerSnapshot[] => [],
      shadowView: (): readonly ShadowCallerSnapshot[] => [],
      nameOf: () => undefined,
      callersSinceMs: nowMs,
    },
    distinct: {
      ofRule: (rule) => ({
        isCounted: true,
        record(hi, lo) {
          const hashes = distinct.get(rule) ?? new Set()
          distinct.set(rule, hashes.add(`${hi} ${lo}`))
        },
        estimate: () => distinct.get(rule)?.size ?? 0,
        registers: () => [...(distinct.get(rule) ?? [])].join(),
      }),
      tick: (atMs) => void ticks.push(atMs),
    },
    remaining: {
      ofRule(rule) {
        const histogram = shares.get(rule) ?? new HistogramSeries([0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])
        shares.set(rule, histogram)
        return {
          bounds: histogram.bounds,
          counts: () => histogram.counts(),
          observe: (left) => void (left >= 0 && histogram.observe(left)),
        }
      },
    },
    nowMs,
    ...options.deps,
  })
  const recordDecision = (decision: Decision, call: Call) => {
    metrics.count(decision)
    stats.onDecision(decision, call)
  }
  const decide = (call: Call) => recordDecision(limiter.checkSync(call), call)
  /** Makes this many calls of one user. */
  const call = (user: string, times = 1, more: Readonly<Record<string, string>> = {}) => {
    for (let i = 0; i < times; i++) decide({ attributes: { user, ...more } })
  }
  /** Advances by seconds, each with a tick; `each` runs before every tick. */
  let atMs = nowMs
  const pass = (seconds: number, each: () => void = () => {}) => {
    for (let i = 0; i < seconds; i++) {
      each()
      atMs += 1000
      stats.tick(atMs)
    }
  }
  const snapshot = (): NodeSnapshot => stats.snapshot(atMs)
  const setClock = (nextMs: number) => void (atMs = nextMs)
  return {
    stats,
    decide,
    recordDecision,
    call,
    pass,
    snapshot,
    setClock,
    calls,
    would,
    ticks,
    distinct,
    decisionTimes,
    storeTimes,
    get nowMs() {
      return atMs
    },
  }
}

export function sumOf(
  series: Pick<SeriesSnapshot, 'allowed' | 'refused' | 'shadowRefused'>,
): number {
  const { allowed, refused, shadowRefused } = series
  return [...allowed, ...refused, ...shadowRefused].reduce((sum, count) => sum + count, 0)
}
