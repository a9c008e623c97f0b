/** A call from its coming to its decision, and what that took. */
import type { CompiledLimit, Decision } from '@sluice/core'
import type { Account } from './ground-truth.js'

export interface CallRecord {
  readonly id: number
  readonly node: string
  readonly user: string
  readonly startedUs: number
  /** When it came, by the store's clock. */
  readonly startedStoreUs: number
  readonly takes: readonly (readonly TakeRecord[])[]
}

export interface TakeRecord {
  readonly account: Account
  /** By the rules in force on its node when it came. */
  readonly compiled: CompiledLimit
  readonly amount: number
  /** The name under which its would-be refusal is reported; undefined: it is enforced. */
  readonly shadow: string | undefined
}

export interface DecisionRecord {
  readonly call: CallRecord
  readonly decision: Decision
  /** What it admitted. */
  readonly spent: readonly Spending[]
  readonly trueUs: number
  /** By the store's own clock, and by what the node takes for it, which may be off by so much. */
  readonly storeUs: number
  readonly nodeUs: number
  readonly uncertaintyUs: number
}

export interface Spending {
  readonly take: TakeRecord
  readonly byPosture: boolean
}

/** What a decision admitted, rule by rule: a shadow rule too, unless it would have refused. */
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
