/** Where every way in asks for a decision, so that each is counted and each refusal logged once. */
import type { Call, Decision } from '@sluice/core'
import type { CheckOptions, Limiter } from '@sluice/limiter'

type Way = 'gateway' | 'websocket' | 'api' | 'forward-auth'

export interface Decider {
  readonly limiter: Limiter
  check(call: Call, way: Way, options?: CheckOptions): Promise<Decision>
}

export interface DeciderParts {
  readonly limiter: Limiter
  readonly metrics: { count(decision: Decision): void }
  readonly refusals: { refused(decision: Decision, call: Call, way: Way): void }
}

export function createDecider({ limiter, metrics, refusals }: DeciderParts): Decider {
  return {
    limiter,
    async check(call, way, options) {
      const decision = await limiter.check(call, options)
      metrics.count(decision)
      if (!decision.allowed) refusals.refused(decision, call, way)
      return decision
    },
  }
}
