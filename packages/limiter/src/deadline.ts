/** How long a call may wait for the store. */
import type { Plan } from '@sluice/core'

/**
 * How long a decision waits for a store by default, in milliseconds. Long enough for a Redis on
 * busy cores: what a dead one costs is bounded by the breaker, not by this.
 */
export const DEFAULT_DEADLINE_MS = 50

/** The shortest deadline of its enforced rules that have one. */
export function ruleDeadline({ matched }: Plan): number | undefined {
  let shortest: number | undefined
  for (let i = 0; i < matched.length; i++) {
    const rule = matched[i]?.rule
    const ruleMs = rule?.mode === 'enforce' ? rule.rule.deadlineMs : undefined
    if (ruleMs !== undefined && (shortest === undefined || ruleMs < shortest)) shortest = ruleMs
  }
  return shortest
}

/** In whole milliseconds, or there would be as many deadlines as calls. */
export function remainingMs(deadlineMs: number, waitedMs: number): number {
  return Math.max(1, Math.ceil(deadlineMs - waitedMs))
}
