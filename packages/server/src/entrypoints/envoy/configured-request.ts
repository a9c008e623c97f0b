/** A request of a domain that has a configuration: that alone decides it. */
import { counterKey, type Plan } from '@sluice/core'
import { type CallPlanner, type JoinedAnswer, leftBefore } from '@sluice/limiter/internal'
import type { ConfiguredDomain } from './configured-domain.js'
import type { DescriptorLimit } from './descriptor-limits.js'
import { clampUint32 } from './limit-units.js'
import type { ReferenceMetrics } from './reference-metrics.js'
import { RateLimitCall, type RateLimitCallDeps } from './rate-limit-call.js'
import { DescriptorCall, DescriptorPlan, DescriptorTake } from './reported-call.js'
import { OK_STATUS, type RequestDescriptor, Status } from './request-descriptor.js'

export class ConfiguredRequest extends RateLimitCall {
  readonly #domain: ConfiguredDomain
  readonly #metrics: ReferenceMetrics

  constructor(
    deps: RateLimitCallDeps,
    domain: ConfiguredDomain,
    metrics: ReferenceMetrics,
    descriptors: readonly RequestDescriptor[],
  ) {
    super(deps, descriptors)
    this.#domain = domain
    this.#metrics = metrics
  }

  protected planOne(each: RequestDescriptor, planner: CallPlanner): Plan | undefined {
    if (each.kind !== 'limited') return undefined
    const limits = this.#domain.limitsOf(planner.snapshot)
    const { selected, descriptor, hits } = each
    const override = selected === undefined ? descriptor.limit : undefined
    const limit =
      selected === undefined ? override && limits.override(override) : limits.of(selected)
    if (limit === undefined) return undefined
    each.limit = limit
    const caller =
      selected === undefined
        ? limits.callerOfEntries(descriptor.entries)
        : limits.callerOf(selected)
    const cost = each.isReturn ? 0 : hits
    const { entries } = descriptor
    const { rule } = limit
    const match = new DescriptorCall(rule, caller, cost, selected?.counter, entries, this.deps.mask)
    each.call = each.isReturn ? undefined : match
    return new DescriptorPlan(match, takeOf(each, limit, counterKey(caller, limit.compiled)))
  }

  protected settle(each: RequestDescriptor, { plan, outcomes }: JoinedAnswer): void {
    const { limit } = each
    if (limit === undefined) return
    const group = plan.groups.length - 1
    const take = plan.groups[group]?.[0]
    const outcome = outcomes[group]?.[0]
    if (take === undefined || outcome === undefined) {
      // A refusal that is known here lists only limits that refuse.
      each.status = OK_STATUS
      return
    }
    const { current, gateMargin } = limit
    const { retryAfterMs, resetAfterMs } = outcome
    const isOver = retryAfterMs !== 0 && !each.isReturn
    const remaining = take.gate === true ? outcome.remaining - gateMargin : outcome.remaining
    const left = remaining > 0 ? remaining : 0
    this.#metrics.record(each, isOver, left, isOver ? leftBefore(take, outcome) : left)
    const isShown = isOver && each.selected?.node.isShadow !== true
    const resetMs = isShown && retryAfterMs !== null ? retryAfterMs : resetAfterMs
    const code = isShown ? 'over-limit' : 'ok'
    each.status = new Status(code, current, clampUint32(left), Math.ceil(resetMs / 1000))
  }
}

function takeOf(
  { hits, isReturn, isMetered }: RequestDescriptor,
  { compiled, limit, gateLimit, countsFirst }: DescriptorLimit,
  key: DescriptorTake['key'],
): DescriptorTake {
  if (isReturn) return new DescriptorTake(key, limit, -hits, compiled, false, false)
  if (hits === 0) return new DescriptorTake(key, gateLimit, 0, compiled, true, false)
  return new DescriptorTake(key, limit, hits, compiled, false, isMetered || countsFirst)
}
