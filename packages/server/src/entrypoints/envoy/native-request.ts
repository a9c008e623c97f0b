/** A request of a domain without a configuration: the rules of Sluice decide each descriptor. */
import {
  type Decision,
  isBlock,
  type Plan,
  type PlannedTake,
  shedDecision,
  SluiceError,
} from '@sluice/core'
import type { CallPlanner, JoinedAnswer } from '@sluice/limiter/internal'
import { clampUint32, unitOfWindow } from './limit-units.js'
import { attributesOf } from './native-attributes.js'
import { RateLimitCall, shownOutcome } from './rate-limit-call.js'
import { OVER_STATUS, type RequestDescriptor, Status } from './request-descriptor.js'

/** Mistakes of one descriptor: it is refused, or it could be sent to dodge its limits. */
export const CALL_ERRORS: ReadonlySet<string> = new Set([
  'CALL_PATH_INVALID',
  'CALL_ATTRIBUTE_TOO_LONG',
])
const GATE = { canWait: false, gate: true } as const
const CHARGE = { canWait: false, gate: false } as const

export class NativeRequest extends RateLimitCall {
  protected planOne(each: RequestDescriptor, planner: CallPlanner): Plan | undefined {
    // A descriptor that only gives back is no call, and what is refused stays refused.
    if (each.kind === 'exempt' || each.kind === 'refused') return undefined
    const { descriptor, hits, isMetered } = each
    const { domain, mask } = this.deps
    const attributes = mask(attributesOf(domain, descriptor.entries))
    const call = { attributes, cost: hits }
    each.call = call
    let planned: ReturnType<CallPlanner['plan']>
    try {
      planned = planner.plan(call, hits === 0 ? GATE : CHARGE)
    } catch (error) {
      if (!(error instanceof SluiceError) || !CALL_ERRORS.has(error.code)) throw error
      // As if it had been shed: nobody's limit refused it, and it was not counted.
      this.refuse(each, shedDecision(undefined, 0))
      each.problem = error.message
      return undefined
    }
    if (planned.groups !== undefined) {
      each.kind = 'limited'
      return isMetered && hits > 0 ? countingFirst(planned) : planned
    }
    if (planned.allowed) {
      each.kind = 'unmatched'
      each.decision = planned
    } else this.refuse(each, planned)
    return undefined
  }

  protected settle(each: RequestDescriptor, answer: JoinedAnswer): void {
    const { decision } = each
    if (decision === undefined) return
    const shown = shownOutcome(answer, decision)
    const code = decision.allowed ? 'ok' : 'over-limit'
    if (shown === undefined) {
      // A refusal that is known here may list the block of a limit without the limit.
      if (!decision.allowed) each.status = blockedStatus(decision)
      return
    }
    const { take, outcome } = shown
    const { limit, compiled } = take
    const { resetAfterMs } = outcome
    // That of the decision: a block is longer than the wait of its limit.
    const resetMs = decision.allowed ? resetAfterMs : (decision.retryAfterMs ?? resetAfterMs)
    const current = {
      requestsPerUnit: clampUint32(limit.capacity),
      unit: unitOfWindow(limit.windowMs),
      name: compiled.policy,
    }
    const left = clampUint32(outcome.remaining)
    each.status = new Status(code, current, left, Math.ceil(resetMs / 1000))
  }

  private refuse(each: RequestDescriptor, decision: Decision): void {
    each.kind = 'refused'
    each.decision = decision
    each.status = OVER_STATUS
  }
}

function blockedStatus({ retryAfterMs }: Decision): Status {
  const resetSeconds = retryAfterMs === null ? undefined : Math.ceil(retryAfterMs / 1000)
  return new Status('over-limit', undefined, 0, resetSeconds)
}

/**
 * Lets the enforced limits of a plan count before they compare. Only the store can do that, so
 * limits that nodes count by themselves stay as they are.
 */
export function countingFirst({ matched, groups, shadows }: Plan): Plan {
  return {
    matched,
    groups: groups.map((takes) => takes.map(overdrawn)),
    shadows,
  }
}

function overdrawn(take: PlannedTake): PlannedTake {
  const { compiled, limit } = take
  const canOverdraw = compiled.coordination === 'exact' && !isBlock(limit)
  return canOverdraw ? { ...take, overdraw: true } : take
}
