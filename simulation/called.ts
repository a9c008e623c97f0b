/** A call from its coming to its decision, and what that took. */
import type { CompiledLimit, Decision } from '@sluice/core'
import type { Account } from './truth.js'

export interface Called {
  readonly id: number
  readonly node: string
  readonly user: string
  readonly startedUs: number
  /** When it came, by the store's clock. */
  readonly startedStoreUs: number
  readonly takes: readonly (readonly Wanted[])[]
}

export interface Wanted {
  readonly account: Account
  /** By the rules in force on its node when it came. */
  readonly of: CompiledLimit
  readonly amount: number
  /** The name under which its would-be refusal is reported; undefined: it is enforced. */
  readonly shadow: string | undefined
}

export interface Decided {
  readonly called: Called
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
  readonly wanted: Wanted
  readonly byPosture: boolean
}

/** What a decision admitted, rule by rule: a shadow rule too, unless it would have refused. */
export function spendings(called: Called, decision: Decision): readonly Spending[] {
  if (!decision.allowed) return []
  return called.takes.flat().flatMap((wanted) => {
    const { shadow, of } = wanted
    if (shadow !== undefined) {
      return decision.shadow.includes(shadow) ? [] : { wanted, byPosture: false }
    }
    return { wanted, byPosture: decision.postures?.[of.rule] !== undefined }
  })
}
