/** Plans the takes of a call: groups that the store charges whole or not at all. */
import { type Call, readAttribute } from '../call.js'
import { SluiceError, show } from '../errors.js'
import { type CounterKey, counterKey } from '../key.js'
import type { Limit } from '../limit.js'
import type { CompiledBlock, CompiledLimit } from '../matching/compiled.js'
import type { MatchedRule } from '../matching/match.js'
import { isCount, MAX_INTEGER } from '../numbers.js'
import type { Cost } from '../rules/rule.js'

/** A request for `amount` units of one counter; below 0 it gives them back. */
export interface Take {
  readonly key: CounterKey
  readonly limit: Limit
  readonly amount: number
  /** With an amount of 0: refused unless one whole unit is left. @default false */
  readonly gate?: boolean | undefined
  /**
   * Counts first and compares then: the amount is charged even if its group is refused, and what
   * exceeds the limit is owed, down to the limit's `debt`. Not for places. @default false
   */
  readonly overdraw?: boolean | undefined
  /**
   * With an amount below 0: when the units were taken, as `at` of their outcome; undefined: in the
   * present window.
   */
  readonly at?: number | undefined
  /** The least amount that a lease accepts if the whole is not available. */
  readonly atLeast?: number | undefined
  /**
   * Of a limit of concurrency: the number of the node, or other holder, whose places are taken.
   * @default 0
   */
  readonly holder?: number | undefined
  /** Whether the counter survives a restart, if the store supports it. @default false */
  readonly durable?: boolean | undefined
  /**
   * Of a block: whether the take before it reads the marks of calls that hold units of its limit,
   * and the take of the limit comes before that one. While there are marks, no block begins.
   * The store in Redis sets it on a Cluster; other stores do not meet it.
   *
   * @default false
   */
  readonly isAfterMarks?: boolean | undefined
}

/** Whether a take charges its limit when its group is refused. */
export function isChargedOnRefusal({ limit, amount, overdraw }: Take): boolean {
  return amount > 0 && (limit.onRefusal === 'charge' || overdraw === true)
}

export interface PlannedTake extends Take {
  readonly compiled: CompiledLimit
  /** Whether it marks a reservation, and belongs to no limit of the rule. @default false */
  readonly isMark?: boolean | undefined
}

export interface Plan {
  /** The rules it was made from, in their order. */
  readonly matched: readonly MatchedRule[]
  /**
   * The first group holds all enforced limits and may be empty; the others run only if it passes.
   */
  readonly groups: readonly (readonly PlannedTake[])[]
  /** For each further group, from 1 on: the id under which its shadow refusal is reported. */
  readonly shadows: readonly string[]
  /**
   * How many of the last groups are alternatives. Each of them is decided by itself, like the first
   * group, which still opens it; the maker of the plan combines their outcomes. @default 0
   */
  readonly alternatives?: number | undefined
}

export interface PlanOptions {
  /**
   * Whether the entry point can delay a call; if not, a delay is a refusal that charges nothing.
   */
  readonly canWait: boolean
  /** Whose places the call takes, if it counts as in flight. @default 0 */
  readonly holder?: number | undefined
  /**
   * Whether the call only passes through gates: it costs nothing, and is refused where nothing is
   * left. @default false
   */
  readonly gate?: boolean | undefined
  /** Whether the call reserves: then a refusal charges no limit, not even one that overdraws. */
  readonly reserves?: boolean | undefined
}

const DEFAULT_OPTIONS: PlanOptions = { canWait: true }

export function planCall(
  matched: readonly MatchedRule[],
  call: Call,
  options: PlanOptions = DEFAULT_OPTIONS,
): Plan {
  const isGate = options.gate === true
  const cost = isGate ? 0 : readCost(call.cost ?? 1)
  let enforced = NO_TAKES
  let shadows: PlannedTake[][] | undefined
  let names = NO_IDS
  for (let i = 0; i < matched.length; i++) {
    const match = matched[i]
    if (match === undefined) continue
    const { rule } = match
    const amount = isGate ? 0 : amountOf(rule.cost, call, cost)
    if (typeof amount !== 'number') {
      // A shadow rule never makes a call fail: it does not count a cost that it cannot read.
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

/**
 * A class, not an object literal, because it lives while a call waits: see sip-hash.ts. The same
 * holds for its takes.
 */
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

/** Returns the id of a candidate among rule ids, which have no colon. */
export function candidateId(rule: string): string {
  return `${rule}:candidate`
}

/**
 * Appends the takes of one rule to `before`. A list of one has its own path, because most have one.
 */
function planTakes(
  before: PlannedTake[],
  match: MatchedRule,
  limits: readonly CompiledLimit[],
  amount: number,
  options: PlanOptions,
): PlannedTake[] {
  const { canWait, gate } = options
  let takes = before
  for (let i = 0; i < limits.length; i++) {
    const whole = limits[i]
    if (whole === undefined) continue
    const compiled = whole.ceilings === undefined ? whole : ofPriority(whole, match)
    const key = counterKey(match.caller, compiled)
    const limit = canWait ? compiled.limit : compiled.immediate
    // Few takes have more fields, and every field of every take costs memory.
    const take =
      compiled.isOrdinary && gate !== true
        ? new OrdinaryTake(key, limit, amount, compiled)
        : specialTake(key, limit, amount, compiled, options)
    if (takes === NO_TAKES) takes = [take]
    else takes.push(take)
    if (compiled.block !== undefined) takes.push(blockTake(match, compiled, compiled.block, take))
  }
  return takes
}

/** A take of a counter that survives a restart, one that gates or overdraws, or one of places. */
function specialTake(
  key: CounterKey,
  limit: Limit,
  amount: number,
  compiled: CompiledLimit,
  { gate, holder, reserves }: PlanOptions,
): PlannedTake {
  const { durable } = compiled
  const overdraw = limit.onRefusal === 'overdraw' && reserves !== true
  const take = { key, limit, amount, atLeast: undefined, compiled, durable, gate, overdraw }
  return compiled.isPlaces ? { ...take, holder } : take
}

/** The limit under the ceiling of the call's priority; the whole one if that is not known. */
function ofPriority(whole: CompiledLimit, { view: { priority } }: MatchedRule): CompiledLimit {
  return (priority && whole.ceilings?.[priority.index]) ?? whole
}

/**
 * Follows the take of its limit: that is how the store knows which limit it is beside. A block
 * takes no units, but with an amount of 0 it would not refuse a gate.
 */
function blockTake(
  { caller }: MatchedRule,
  compiled: CompiledLimit,
  block: CompiledBlock,
  { amount, gate }: PlannedTake,
): PlannedTake {
  const { limit } = block
  const key = counterKey(caller, block)
  const units = gate === true ? 1 : amount
  const { durable } = compiled
  return { key, limit, amount: units, atLeast: undefined, compiled, durable, gate }
}

/**
 * Returns the amount of a call. A number multiplies the call's cost; an attribute, if present,
 * replaces it. Returns an error if the attribute is not a valid amount.
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
