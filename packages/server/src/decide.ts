/** Decides calls for every entry point, counts each decision and logs each refusal once. */
import type { Call, Decision } from '@sluice/core'
import type { CheckOptions, Limiter, Reservation, ReserveOptions } from '@sluice/limiter'
import { decidePlanned, type PlannedCalls, type PlannedOptions } from '@sluice/limiter/internal'
import type { RequestTrace } from './observability/tracing/telemetry.js'

export type EntryPoint = 'gateway' | 'websocket' | 'api' | 'forward-auth' | 'admin' | 'envoy'

/** Calls that are decided together, and reported one by one. */
export interface ReportedCalls extends PlannedCalls {
  /** Visits each call that was decided, with its own decision. */
  eachDecision(visit: (decision: Decision, call: Call) => void): void
}

/** Returns the decision of all calls together. A promise only if a remote store decides. */
type DecidePlanned = (calls: ReportedCalls, options: PlannedOptions) => Decision | Promise<Decision>

export interface Decider {
  readonly limiter: Limiter
  /** A promise only if a remote store decides; see docs/performance.md#promises. */
  check(
    call: Call,
    entryPoint: EntryPoint,
    options?: CheckOptions,
    traced?: RequestTrace,
  ): Decision | Promise<Decision>
  /** Decides the calls that this entry point plans itself; their latency counts once. */
  planned(entryPoint: EntryPoint): DecidePlanned
  /** Decides a call whose costs are estimates; `settle` of the reservation ends it. */
  reserve(
    call: Call,
    entryPoint: EntryPoint,
    options?: ReserveOptions,
    traced?: RequestTrace,
  ): Promise<Reservation>
}

export interface DeciderDeps {
  readonly limiter: Limiter
  readonly metrics: { count(decision: Decision): void }
  /** Statistics, alerts and the decision log. */
  readonly observability: { onDecision(decision: Decision, call: Call): void }
  readonly refusals: {
    logRefusal(decision: Decision, call: Call, entryPoint: EntryPoint): void
    /** Logs an admitted call that a shadow rule or a candidate would have refused. */
    logShadowRefusal(decision: Decision, call: Call, entryPoint: EntryPoint): void
  }
  /** Receives decisions that were made by posture. */
  readonly degraded: { onDecision(decision: Decision): void }
  /** Decision latency in seconds. */
  readonly times: { observe(seconds: number, times?: number): void }
  /** Milliseconds by a monotonic clock. */
  readonly nowMs: () => number
}

/**
 * Reading the clock twice would cost too much of a decision in memory, so one in this many is timed
 * and counts for the others. Decisions that wait for a remote store are all timed.
 */
export const TIMED_EVERY = 64

export function createDecider(deps: DeciderDeps): Decider {
  const { limiter, metrics, observability, refusals, degraded, times, nowMs } = deps
  let untimed = 0
  const observe = (decision: Decision, call: Call, entryPoint: EntryPoint): void => {
    metrics.count(decision)
    observability.onDecision(decision, call)
    if (decision.postures !== undefined) degraded.onDecision(decision)
    if (!decision.allowed) refusals.logRefusal(decision, call, entryPoint)
    else if (decision.shadow.length > 0) refusals.logShadowRefusal(decision, call, entryPoint)
  }
  const report = <Decided extends Decision>(
    decision: Decided,
    call: Call,
    entryPoint: EntryPoint,
  ): Decided => {
    try {
      observe(decision, call, entryPoint)
    } catch (error) {
      // Nobody else learns of the decision, so nobody else could end its call.
      giveBack(decision)
      throw error
    }
    return decision
  }
  const reportLater = async <Decided extends Decision>(
    decided: Promise<Decided>,
    call: Call,
    entryPoint: EntryPoint,
  ): Promise<Decided> => {
    const beganMs = nowMs()
    const decision = await decided
    times.observe((nowMs() - beganMs) / 1000)
    return report(decision, call, entryPoint)
  }
  const decideTimed = (call: Call, options: CheckOptions | undefined) => {
    const beganMs = nowMs()
    const decided = limiter.decide(call, options)
    if (decided instanceof Promise) return decided
    untimed = 0
    times.observe((nowMs() - beganMs) / 1000, TIMED_EVERY)
    return decided
  }
  const check = (call: Call, entryPoint: EntryPoint, options: CheckOptions | undefined) => {
    const isTimed = untimed === TIMED_EVERY - 1
    const decided = isTimed ? decideTimed(call, options) : limiter.decide(call, options)
    if (decided instanceof Promise) return reportLater(decided, call, entryPoint)
    if (!isTimed) untimed++
    return report(decided, call, entryPoint)
  }
  return {
    limiter,
    planned: (entryPoint) =>
      decideTogether(deps, (decision, call) => void report(decision, call, entryPoint)),
    check: (call, entryPoint, options, traced) =>
      traced === undefined
        ? check(call, entryPoint, options)
        : traced.decide({ entryPoint }, () => check(call, entryPoint, options)),
    reserve: async (call, entryPoint, options, traced) => {
      const reserve = () => reportLater(limiter.reserve(call, options), call, entryPoint)
      return traced === undefined ? reserve() : traced.decide({ entryPoint }, reserve)
    },
  }
}

/** Gives back the places of a decision, and a reservation whole. */
function giveBack(decision: Decision & Partial<Pick<Reservation, 'cancel'>>): void {
  decision.release?.()
  decision.cancel?.().catch(() => {
    // The store does not answer: the reserve stays charged.
  })
}

/** Decides planned calls; `report` receives each of them. */
function decideTogether(
  { limiter, times, nowMs }: DeciderDeps,
  report: (decision: Decision, call: Call) => void,
): DecidePlanned {
  let untimed = 0
  const reportAll = (decision: Decision, calls: ReportedCalls): Decision => {
    calls.eachDecision(report)
    return decision
  }
  const decideLater = (decided: Promise<Decision>, calls: ReportedCalls) => {
    const beganMs = nowMs()
    return decided.then((decision) => {
      times.observe((nowMs() - beganMs) / 1000)
      return reportAll(decision, calls)
    })
  }
  return (calls, options) => {
    const isTimed = untimed === TIMED_EVERY - 1
    const beganMs = isTimed ? nowMs() : 0
    const decided = decidePlanned(limiter, calls, options)
    if (decided instanceof Promise) return decideLater(decided, calls)
    untimed = isTimed ? 0 : untimed + 1
    if (isTimed) times.observe((nowMs() - beganMs) / 1000, TIMED_EVERY)
    return reportAll(decided, calls)
  }
}
