/** The rules of a run: those at its start, and after each change. */
import { type CompiledLimit, compileRules, parseRules, sipKey, type Snapshot } from '@sluice/core'
import type { Fault, RuleSpec, Scenario } from './scenario.js'

/** The same on all nodes. */
export const SECRET = Uint8Array.from({ length: 16 }, (_, i) => i)

export interface RuleVersion {
  readonly number: number
  readonly rules: readonly RuleSpec[]
  readonly snapshot: Snapshot
}

type Change = Extract<Fault, { readonly kind: 'change' }>

export class RuleTimeline {
  readonly first: RuleVersion
  readonly #byChange = new Map<Change, RuleVersion>()

  constructor({ rules, faults }: Pick<Scenario, 'rules' | 'faults'>) {
    this.first = compile(rules, 0)
    let last = this.first
    for (const fault of faults) {
      if (fault.kind !== 'change') continue
      const changed = last.rules.map((rule) => fault.rules.find(({ id }) => id === rule.id) ?? rule)
      last = compile(changed, last.number + 1)
      this.#byChange.set(fault, last)
    }
  }

  after(change: Change): RuleVersion {
    return this.#byChange.get(change) ?? this.first
  }

  /** How long the longest limit remembers anything. */
  get memoryUs(): number {
    let longest = 0
    for (const { snapshot } of [this.first, ...this.#byChange.values()]) {
      for (const { limit, block } of limitsOf(snapshot)) {
        const { windowUs = 0, scaledWindow: forgetUs = 0 } = block?.limit ?? {}
        const most = limit.capacity + limit.debt
        const refillUs = limit.max === 0 ? 0 : (most * limit.windowUs) / limit.max
        longest = Math.max(longest, windowUs + forgetUs)
        // No run lasts until the windows of a calendar are forgotten.
        if (limit.calendar !== undefined) continue
        longest = Math.max(longest, 2 * limit.windowUs, 2 * refillUs)
      }
    }
    return longest
  }
}

function limitsOf({ rules }: Snapshot): readonly CompiledLimit[] {
  return rules.flatMap(({ limits, tiers, candidate }) => [
    ...limits,
    ...[...(tiers?.limits.values() ?? [])].flat(),
    ...(candidate?.limits ?? []),
  ])
}

function compile(input: readonly RuleSpec[], number: number): RuleVersion {
  const { rules, errors } = parseRules([...input], { file: undefined })
  if (rules === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  const snapshot = compileRules(rules, { secret: sipKey(SECRET), ipv6Prefix: 64 })
  return { number, rules: input, snapshot }
}
