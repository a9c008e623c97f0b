/** A call from its arrival to its decision, and the time that took. */
import type { CompiledLimit, Decision } from '@sluice/core'
import type { Account } from './ground-truth.js'
import type { SimBlock } from './sim-block.js'

export interface CallRecord {
  readonly id: number
  readonly node: string
  readonly user: string
  readonly startedUs: number
  /** When it arrived, by the store's clock. */
  readonly startedStoreUs: number
  readonly takes: readonly (readonly TakeRecord[])[]
}

export interface TakeRecord {
  readonly account: Account
  /** By the rules active on its node when it arrived. */
  readonly compiled: CompiledLimit
  readonly amount: number
  /** Whether it takes nothing, and is refused where nothing is left. */
  readonly isGate: boolean
  /** Of a limit with `block`. */
  readonly block: SimBlock | undefined
  /** The name under which its would-be refusal is reported; undefined if it is enforced. */
  readonly shadow: string | undefined
}

export interface DecisionRecord {
  readonly call: CallRecord
  readonly decision: Decision
  /** The units it admitted. */
  readonly spent: readonly Spending[]
  readonly trueUs: number
  /** By the store's own clock, and by the node's estimate of it, which may be off by this much. */
  readonly storeUs: number
  readonly nodeUs: number
  readonly uncertaintyUs: number
}

export interface Spending {
  readonly take: TakeRecord
  readonly byPosture: boolean
}

/**
 * The units a decision admitted, rule by rule, including shadow rules that would not have refused.
 */
export function spendingsOf(call: CallRecord, decision: Decision): readonly Spending[] {
  if (!decision.allowed) return []
  return call.takes.flat().flatMap((take) => {
    const { shadow, compiled } = take
    if (shadow !== undefined) {
      return decision.shadow.includes(shadow) ? [] : { take, byPosture: false }
    }
    return { take, byPosture: decision.postures?.[compiled.rule] !== undefined }
  })
}
