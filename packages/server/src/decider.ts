/** Where every way in asks for a decision, so that each is counted and each refusal logged once. */
import type { Call, Decision } from '@sluice/core'
import type { CheckOptions, Limiter } from '@sluice/limiter'

type Way = 'gateway' | 'websocket' | 'api' | 'forward-auth' | 'admin'

export interface Decider {
  readonly limiter: Limiter
  /** At once where nothing has to be waited for: a promise costs more than it would bring. */
  check(call: Call, way: Way, options?: CheckOptions): Decision | Promise<Decision>
}

export interface DeciderParts {
  readonly limiter: Limiter
  readonly metrics: { count(decision: Decision): void }
  /** Whatever else looks on. */
  readonly observation: { decided(decision: Decision, call: Call): void }
  readonly refusals: {
    refused(decision: Decision, call: Call, way: Way): void
    /** A call that passed, and that something in shadow would have refused. */
    wouldRefuse(decision: Decision, call: Call, way: Way): void
  }
  /** Told of decisions that were made without the store. */
  readonly degraded: { decided(decision: Decision): void }
  /** How long decisions take, in seconds. */
  readonly times: { observe(seconds: number, times?: number): void }
  /** Milliseconds by a clock that never steps. */
  readonly nowMs: () => number
}

/**
 * Reading the clock twice would cost a decision that is made here more than it may. So of those one
 * in so many is timed, and stands for all of them; of those that ask a store elsewhere each is.
 */
export const TIMED_EVERY = 64

export function createDecider(parts: DeciderParts): Decider {
  const { limiter, metrics, observation, refusals, degraded, times, nowMs } = parts
  let untimed = 0
  const tell = (decision: Decision, call: Call, way: Way): Decision => {
    metrics.count(decision)
    observation.decided(decision, call)
    if (decision.postures !== undefined) degraded.decided(decision)
    if (!decision.allowed) refusals.refused(decision, call, way)
    else if (decision.shadow.length > 0) refusals.wouldRefuse(decision, call, way)
    return decision
  }
  const tellLater = async (decided: Promise<Decision>, call: Call, way: Way) => {
    const beganMs = nowMs()
    const decision = await decided
    times.observe((nowMs() - beganMs) / 1000)
    return tell(decision, call, way)
  }
  const decideTimed = (call: Call, options: CheckOptions | undefined) => {
    const beganMs = nowMs()
    const decided = limiter.decide(call, options)
    if (decided instanceof Promise) return decided
    untimed = 0
    times.observe((nowMs() - beganMs) / 1000, TIMED_EVERY)
    return decided
  }
  return {
    limiter,
    check(call, way, options) {
      const isTimed = untimed === TIMED_EVERY - 1
      const decided = isTimed ? decideTimed(call, options) : limiter.decide(call, options)
      if (decided instanceof Promise) return tellLater(decided, call, way)
      if (!isTimed) untimed++
      return tell(decided, call, way)
    },
  }
}
