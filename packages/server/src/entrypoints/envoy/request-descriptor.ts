/** One descriptor of a request: what it asks for, and what became of it. */
import type { Decision, Plan } from '@sluice/core'
import type { SelectedLimit } from './config/limit-tree.js'
import type { DescriptorLimit } from './descriptor-limits.js'
import type { ReportedCall } from './reported-call.js'
import type {
  CurrentLimit,
  Descriptor,
  DescriptorStatus,
  StatusCode,
} from './rate-limit-messages.js'

/** A class, not an object literal, as it lives while a call waits: see sip-hash.ts of the core. */
export class Status implements DescriptorStatus {
  readonly code: StatusCode
  readonly currentLimit: CurrentLimit | undefined
  readonly limitRemaining: number
  readonly resetSeconds: number | undefined

  constructor(
    code: StatusCode,
    currentLimit: CurrentLimit | undefined,
    limitRemaining: number,
    resetSeconds: number | undefined,
  ) {
    this.code = code
    this.currentLimit = currentLimit
    this.limitRemaining = limitRemaining
    this.resetSeconds = resetSeconds
  }
}

/** Of a descriptor without a limit, or whose limit is not known here. */
export const OK_STATUS: DescriptorStatus = new Status('ok', undefined, 0, undefined)
/** Of a descriptor that is refused without a limit. */
export const OVER_STATUS: DescriptorStatus = new Status('over-limit', undefined, 0, undefined)

/**
 * `limited`: a limit decides. `exempt`: none does, and that is intended: the descriptor is
 * unlimited, its limit is replaced by that of another one, or it is configured without a limit.
 * `unmatched`: none does. `refused`: it is refused before any counter is read.
 */
export type DescriptorKind = 'limited' | 'exempt' | 'unmatched' | 'refused'

export class RequestDescriptor {
  readonly descriptor: Descriptor
  /** The units it asks for; 0 for one that only asks whether any are left. */
  readonly hits: number
  /** Whether it has an amount of its own: it is counted first and compared then. */
  readonly isMetered: boolean
  /** Whether it gives its units back. */
  readonly isReturn: boolean
  kind: DescriptorKind = 'unmatched'
  status: DescriptorStatus = OK_STATUS
  /** The limit of the configuration that applies; undefined for an override, and by rules. */
  selected: SelectedLimit | undefined
  /** The path of its metrics, if a limit of its domain or of its own applies. */
  metricPath = ''
  limit: DescriptorLimit | undefined
  /** Whether it is one of several of which one must have room. */
  isAlternative = false
  /** Undefined if it takes from no counter. */
  plan: Plan | undefined
  /** The call that metrics, statistics and logs show; undefined if they show none. */
  call: ReportedCall | undefined
  decision: Decision | undefined
  /** Why it cannot be decided, for its client. */
  problem: string | undefined

  constructor(descriptor: Descriptor, requestHits: number) {
    const { hitsAddend, isNegativeHits } = descriptor
    this.descriptor = descriptor
    // Larger amounts are no exact numbers, and a call that fails would be let through.
    this.hits = Math.min(hitsAddend ?? requestHits, Number.MAX_SAFE_INTEGER)
    this.isMetered = hitsAddend !== undefined
    this.isReturn = isNegativeHits && this.hits > 0
    this.selected = undefined
    this.limit = undefined
    this.plan = undefined
    this.call = undefined
    this.decision = undefined
    this.problem = undefined
  }
}

/** The descriptors of a request, in its order. */
export function describeRequest(
  descriptors: readonly Descriptor[],
  hitsAddend: number,
): readonly RequestDescriptor[] {
  // Envoy sends 0 where nothing is set.
  const hits = hitsAddend === 0 ? 1 : hitsAddend
  const first = descriptors[0]
  // A list of one is a literal: pushing to an empty list allocates seventeen places.
  if (descriptors.length === 1 && first !== undefined) return [new RequestDescriptor(first, hits)]
  const described: RequestDescriptor[] = []
  for (let i = 0; i < descriptors.length; i++) {
    const descriptor = descriptors[i]
    if (descriptor !== undefined) described.push(new RequestDescriptor(descriptor, hits))
  }
  return described
}
