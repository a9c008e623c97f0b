/** A tracker, and short helpers that record decisions. */
import {
  type Attributes,
  formatHash,
  type Hash64,
  type RuleOutcome,
  type ShadowRefusal,
} from '@sluice/core'
import { callWith } from '../../../lib/normalized-call.test-helper.js'
import type { CallerSnapshot } from '../node-snapshot.js'
import { CallerTracker } from './caller-tracker.js'

/** The beginning of an hour, and so of a period. */
export const START = Date.UTC(2026, 0, 1)
export const SECOND = 1000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE

export interface DecisionOptions {
  readonly rule?: string
  readonly by?: readonly string[]
  readonly outcome?: RuleOutcome
  readonly left?: number
  readonly cost?: number
  readonly attributes?: Attributes
  /** Time until its limits are full again. @default an hour */
  readonly resetAfterMs?: number
  /** The route that the call took. */
  readonly route?: string
}

export const REFUSED: DecisionOptions = { outcome: 'refused', left: 0 }
export const LAST_ONE: DecisionOptions = { outcome: 'allowed', left: 0 }
export const ALLOWED: DecisionOptions = { outcome: 'allowed', left: 0.5 }

/** The same number is the same caller; spread as hashes are. */
export function hashOf(caller: number): Hash64 {
  return { hi: Math.imul(caller + 1, 0x85ebca6b), lo: Math.imul(caller + 1, 0x9e3779b1) ^ caller }
}

export function textOf(caller: number): string {
  return formatHash(hashOf(caller))
}

export function openTracker(startMs = START) {
  const tracker = new CallerTracker(startMs)
  let nowMs = startMs
  const see = (caller: number, options: DecisionOptions = ALLOWED) => {
    const { rule = 'per-user', by = ['user'], outcome = 'allowed', left = 0.5, cost = 1 } = options
    const {
      attributes = { user: `u${caller}`, plan: 'free' },
      resetAfterMs = HOUR,
      route,
    } = options
    const call = callWith(attributes, { route })
    const ruleCallers = tracker.ofRule(rule)
    ruleCallers.record(by, hashOf(caller), outcome, left, cost, call, nowMs, resetAfterMs)
  }
  /** An admitted call that a shadow rule or candidate would have refused. */
  const would = (caller: number, mode: ShadowRefusal['mode'] = 'shadow', rule = 'per-user') => {
    const refusal = { rule, mode, by: ['user'], caller: hashOf(caller) }
    const call = callWith({ user: `u${caller}`, plan: 'free', method: 'GET', path: '/tried' })
    const rest = { call, limitName: null, retryAfterMs: 1, reason: 'over' as const }
    tracker.ofRule(rule).recordShadowRefusal({ ...refusal, ...rest }, nowMs)
  }
  /** Advances second by second, as a server does. */
  const pass = (ms: number, each: () => void = () => {}) => {
    const endMs = nowMs + ms
    while (nowMs < endMs) {
      nowMs = Math.min(endMs, nowMs + SECOND)
      tracker.tick(nowMs)
      each()
    }
  }
  /** Advances in one step, as after a suspension. */
  const jump = (ms: number) => {
    nowMs += ms
    tracker.tick(nowMs)
  }
  const snapshotOf = (caller: number, rule = 'per-user'): CallerSnapshot | undefined =>
    tracker
      .view(20, nowMs)
      .find((options) => options.rule === rule && options.hash === textOf(caller))
  return { tracker, see, would, pass, jump, snapshotOf, now: () => nowMs }
}
