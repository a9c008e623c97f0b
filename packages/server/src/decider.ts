/** Where every way in asks for a decision, so that each is counted and each refusal logged once. */
import type { Call, Decision } from '@sluice/core'
import type { CheckOptions, Limiter } from '@sluice/limiter'

type Way = 'gateway' | 'websocket' | 'api' | 'forward-auth'

export interface Decider {
  readonly limiter: Limiter
  /** At once where the counters are in this process: a promise costs more than it would bring. */
  check(call: Call, way: Way, options?: CheckOptions): Decision | Promise<Decision>
}

export interface DeciderParts {
  readonly limiter: Limiter
  readonly metrics: { count(decision: Decision): void }
  readonly refusals: { refused(decision: Decision, call: Call, way: Way): void }
}

export function createDecider({ limiter, metrics, refusals }: DeciderParts): Decider {
  const tell = (decision: Decision, call: Call, way: Way): Decision => {
    metrics.count(decision)
    if (!decision.allowed) refusals.refused(decision, call, way)
    return decision
  }
  return {
    limiter,
    check(call, way, options) {
      if (limiter.isSync) return tell(limiter.checkSync(call, options), call, way)
      return limiter.check(call, options).then((decision) => tell(decision, call, way))
    },
  }
}
