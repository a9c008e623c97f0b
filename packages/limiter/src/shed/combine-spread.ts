/** Composes decisions. Shed calls retry at random times, so that they do not come back at once. */
import {
  combine,
  type Decision,
  type DecisionExtras,
  type Outcome,
  type Plan,
  shedRetryMs,
  type Source,
} from '@sluice/core'
import type { Groups } from '../store.js'

export function combineSpread(
  plan: Plan,
  outcomes: Groups<Outcome>,
  source: Source,
  extras?: DecisionExtras,
): Decision {
  const decision = combine(plan, outcomes, source, extras)
  if (decision.reason !== 'shed') return decision
  return combine(plan, outcomes, source, { ...extras, shedRetryMs: shedRetryMs(Math.random()) })
}
