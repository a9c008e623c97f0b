/** What a call asks of the store: takes in groups, each charged whole or not at all. */
import { type Call, readAttribute } from '../call.js'
import { SluiceError, show } from '../errors.js'
import { type CounterKey, counterKey } from '../key.js'
import type { Limit } from '../limit.js'
import type { CompiledLimit } from '../matching/compiled.js'
import type { MatchedRule } from '../matching/match.js'
import { isCount, MAX_INTEGER } from '../numbers.js'
import type { Cost } from '../rules/rule.js'

/** One wish: `amount` units of one counter. */
export interface Take {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  /** A lease takes less if there is at least so much. */
  readonly atLeast?: number | undefined
  /** The counter is to outlive a restart, where the store can see to that. @default false */
  readonly durable?: boolean | undefined
}

export interface PlannedTake extends Take {
  readonly compiled: CompiledLimit
}

export interface Plan {
  /** The rules it was made from, in their order. */
  readonly matched: readonly MatchedRule[]
  /** The first group holds all enforced limits, even where there are none; it opens the others. */
  readonly groups: readonly (readonly PlannedTake[])[]
  /** Beside each further group, from 1 on: the id under which its would-be refusal is reported. */
  readonly shadows: readonly string[]
}

export interface PlanOptions {
  /**
   * Whether the way in can hold a call; where it cannot, a delay is a refusal that charges nothing.
   */
  readonly canWait: boolean
}

const DEFAULT_OPTIONS: PlanOptions = { canWait: true }

export function planCall(
  matched: readonly MatchedRule[],
  call: Call,
  options: PlanOptions = DEFAULT_OPTIONS,
): Plan {
  const cost = readCost(call.cost ?? 1)
  let enforced = NO_TAKES
  let shadows: PlannedTake[][] | undefined
  let names = NO_IDS
  for (let i = 0; i < matched.length; i++) {
    const match = matched[i]
    if (match === undefined) continue
    const { rule } = match
    const amount = amountOf(rule.cost, call, cost)
    if (typeof amount !== 'number') {
      // A rule in shadow never makes a call fail: it does not count what it cannot read.
      if (rule.mode === 'shadow') continue
      throw amount
    }
    if (rule.mode === 'shadow') {
      shadows = [...(shadows ?? []), planTakes(NO_TAKES, match, match.limits, amount, options)]
      names = [...names, rule.id]
    } else enforced = planTakes(enforced, match, match.limits, amount, options)
    if (match.candidate === undefined) continue
    shadows = [...(shadows ?? []), planTakes(NO_TAKES, match, match.candidate, amount, options)]
    names = [...names, candidateId(rule.id)]
  }
  const groups = shadows === undefined ? [enforced] : [enforced, ...shadows]
  return new GroupedPlan(matched, groups, names)
}

/** Made by a class as it lives while a call waits: see sip-hash.ts. So are its takes. */
class GroupedPlan implements Plan {
  readonly matched: readonly MatchedRule[]
  readonly groups: readonly (readonly PlannedTake[])[]
  readonly shadows: readonly string[]

  constructor(
    matched: readonly MatchedRule[],
    groups: readonly (readonly PlannedTake[])[],
    shadows: readonly string[],
  ) {
    this.matched = matched
    this.groups = groups
    this.shadows = shadows
  }
}

class OrdinaryTake implements PlannedTake {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  readonly atLeast = undefined
  readonly compiled: CompiledLimit

  constructor(key: CounterKey, limit: Limit, amount: number, compiled: CompiledLimit) {
    this.key = key
    this.limit = limit
    this.amount = amount
    this.compiled = compiled
  }
}

const NO_TAKES: PlannedTake[] = []
const NO_IDS: readonly string[] = []

/** The name of a candidate where those of rules stand; ids have no colon. */
export function candidateId(rule: string): string {
  return `${rule}:candidate`
}

/** The takes of `before` and those of one rule; a list of one is made as such, because most are. */
function planTakes(
  before: PlannedTake[],
  match: MatchedRule,
  limits: readonly CompiledLimit[],
  amount: number,
  { canWait }: PlanOptions,
): PlannedTake[] {
  let takes = before
  for (let i = 0; i < limits.length; i++) {
    const compiled = limits[i]
    if (compiled === undefined) continue
    const key = counterKey(match.caller, compiled)
    const limit = canWait ? compiled.limit : compiled.immediate
    // Few are durable, and every field of every take has its price.
    const take = compiled.durable
      ? { key, limit, amount, atLeast: undefined, compiled, durable: true }
      : new OrdinaryTake(key, limit, amount, compiled)
    if (takes === NO_TAKES) takes = [take]
    else takes.push(take)
  }
  return takes
}

/**
 * A rule's number multiplies the call's cost; its attribute, if there, replaces it. An error where
 * that is no amount.
 */
export function amountOf(cost: Cost, call: Call, callCost: number): number | SluiceError {
  if (cost === 1) return callCost
  if (typeof cost === 'number') {
    const amount = cost * callCost
    if (amount <= MAX_INTEGER) return amount
    return costError(`${callCost} times the rule's cost of ${cost}`)
  }
  const text = readAttribute(call.attributes, cost.attribute)
  if (text === undefined) return callCost
  const amount = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : Number.NaN
  if (isCount(amount)) return amount
  return costError(show(text), `attribute ${cost.attribute}`)
}

function readCost(cost: unknown): number {
  if (isCount(cost)) return cost
  throw costError(typeof cost === 'string' ? `"${show(cost)}"` : show(cost))
}

function costError(found: string, name = 'cost'): SluiceError {
  return new SluiceError(
    'CALL_COST_INVALID',
    `${name} must be an integer between 0 and 2^53-1, got ${found}`,
  )
}
