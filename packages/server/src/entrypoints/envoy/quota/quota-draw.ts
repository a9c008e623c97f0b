/**
 * What one bucket takes from the counters and gives back to them, as calls that the decider
 * decides: leases, what was spent beyond them, and what was not spent.
 */
import {
  algorithmOf,
  type Call,
  type CompiledLimit,
  type Decision,
  type DecisionExtras,
  isBlock,
  passes,
  type Plan,
  type PlannedTake,
  type PostureName,
  shedDecision,
  SluiceError,
  type Source,
  UNMATCHED,
} from '@sluice/core'
import type { Groups } from '@sluice/limiter'
import { type CallPlanner, combineSpread, type KnownOutcome } from '@sluice/limiter/internal'
import type { ReportedCalls } from '../../../decide.js'
import { CALL_ERRORS, countingFirst } from '../native-request.js'
import type { LeaseBounds } from './quota-bucket.js'

const NOTHING: Plan = { matched: [], groups: [[]], shadows: [] }
const CANNOT_WAIT = { canWait: false, gate: false } as const
/**
 * How much of a limit the proxies that have a bucket may hold. One that spends nothing may hold as
 * much, so that a burst is not refused before the next report, unless the rule is leased and says
 * less, or others share the limit.
 */
const HELD_SHARE = 0.5
/** The most calls at once: the tokens of a bucket have 32 bits, and costs multiply them. */
export const CALLS_MAX = 2 ** 31

/** An outcome; the fallback adds by which posture it was made. */
type DrawOutcome = KnownOutcome & { readonly posture?: PostureName | undefined }

/** The units of one counter that were taken for a draw. */
interface DrawnTake {
  readonly take: PlannedTake
  /** Units of each call. */
  readonly weight: number
  readonly granted: number
  /** When they were taken, by the store. */
  readonly at: number
  /** When to give them back changes nothing any more: they have refilled, or count no more. */
  readonly untilMs: number
}

/** Calls that were taken from the counters together. */
export class Draw {
  readonly calls: number
  left: number
  /** When the first of their windows ends. */
  readonly endsMs: number
  /** When the proxy was sent a lease in their place. */
  replacedMs: number | undefined
  /** What can be given back; empty if the store has not taken it. */
  readonly takes: readonly DrawnTake[]

  constructor(calls: number, endsMs: number, takes: readonly DrawnTake[]) {
    this.calls = calls
    this.left = calls
    this.endsMs = endsMs
    this.replacedMs = undefined
    this.takes = takes
  }

  /** Spends up to so many calls; returns how many it had. */
  spend(calls: number): number {
    const spent = Math.min(calls, this.left)
    this.left -= spent
    return spent
  }
}

/** What the rules say about the calls of a bucket. */
export type DrawResult =
  /** No limit counts them. */
  | { readonly kind: 'unlimited'; readonly isMatched: boolean }
  /** Every limit that counts them is open, because the store does not answer. */
  | { readonly kind: 'open' }
  | { readonly kind: 'drawn'; readonly draw: Draw; readonly isShort: boolean }
  | { readonly kind: 'refused'; readonly retryMs: number | null; readonly canRetryWith: number }

export interface LeaseOptions {
  readonly wanted: (bounds: LeaseBounds) => number
  /** Whether a refusal is not tried again with fewer calls, so that it is a decision. */
  readonly isLastTry: boolean
  /** The streams of this node that have this bucket. */
  readonly proxies: number
  /** The buckets of this node's streams that share a counter, this one included. */
  readonly sharers: (counter: string) => number
  /** The live nodes that share the counters. */
  readonly nodes: number
  readonly nowMs: () => number
}

/** Takes a lease: as many calls as are wanted, or as many as all limits have left. */
export class LeaseCall implements ReportedCalls {
  readonly #call: Call
  readonly #options: LeaseOptions
  #planned: Plan = NOTHING
  #calls = 0
  /** The counters that it is taken from. */
  counters: readonly string[] = []
  #decision: Decision = UNMATCHED
  #isReported = true
  #result: DrawResult = { kind: 'unlimited', isMatched: false }
  /** Units that were taken beyond what the limits have in common. */
  surplus: Draw | undefined

  constructor(call: Call, options: LeaseOptions) {
    this.#call = call
    this.#options = options
  }

  get result(): DrawResult {
    return this.#result
  }

  plan(planner: CallPlanner): Plan {
    this.#planned = NOTHING
    this.counters = []
    const planned = planOf(planner, this.#call)
    if (planned.groups === undefined) {
      this.#decision = planned
      this.#result = planned.allowed
        ? { kind: 'unlimited', isMatched: false }
        : { kind: 'refused', retryMs: planned.retryAfterMs, canRetryWith: 0 }
      return NOTHING
    }
    const counted = countedTakes(planned)
    if (counted.length === 0) {
      // Rules in shadow count what is reported, and limits of concurrency do not count here.
      this.#isReported = false
      this.#result = { kind: 'unlimited', isMatched: true }
      return NOTHING
    }
    const { wanted } = this.#options
    this.counters = counted.map(counterOf)
    const bounds = leaseBounds(counted, this.#options)
    this.#calls = Math.min(wanted(bounds), CALLS_MAX, ...counted.map(mostCalls))
    this.#planned = {
      matched: planned.matched,
      groups: planned.groups.map((takes) => takes.map((take) => leaseTake(take, this.#calls))),
      shadows: planned.shadows,
    }
    return this.#planned
  }

  compose(
    plan: Plan,
    outcomes: Groups<KnownOutcome>,
    source: Source,
    extras: DecisionExtras | undefined,
  ): Decision {
    if (this.#planned === NOTHING) return this.#decision
    this.#decision = combineSpread(plan, outcomes, source, extras)
    const row: readonly DrawOutcome[] = outcomes[0] ?? []
    this.#result = this.#decision.allowed
      ? this.granted(outcomes)
      : this.refused(plan.groups[0] ?? [], row)
    return this.#decision
  }

  eachDecision(visit: (decision: Decision, call: Call) => void): void {
    const result = this.#result
    // What is tried again with fewer calls is one call.
    const { isLastTry } = this.#options
    const isFinal = result.kind !== 'refused' || result.canRetryWith === 0 || isLastTry
    if (!this.#isReported || !isFinal) return
    const cost = result.kind === 'drawn' ? result.draw.left : 1
    visit(this.#decision, { ...this.#call, cost })
  }

  private granted(outcomes: Groups<DrawOutcome>): DrawResult {
    const nowMs = this.#options.nowMs()
    let calls = this.#calls
    let endsMs = Infinity
    let isOpen = true
    const taken: DrawnTake[] = []
    this.#planned.groups.forEach((takes, g) => {
      const row = outcomes[g] ?? []
      if (row.length !== takes.length || !passes(row)) return
      takes.forEach((take, i) => {
        const outcome = row[i]
        const weight = take.atLeast ?? 0
        if (outcome === undefined || weight === 0) return
        const { granted, posture, at, resetAfterMs } = outcome
        if (g === 0) {
          if (posture !== 'open') isOpen = false
          // Without the store the whole is granted, and the store is charged for it later.
          if (granted > 0) calls = Math.min(calls, Math.floor(granted / weight))
          if (countsWindows(take)) endsMs = Math.min(endsMs, nowMs + resetAfterMs)
        }
        const untilMs = nowMs + countedMs(take, resetAfterMs)
        if (granted > 0) taken.push({ take, weight, granted, at, untilMs })
      })
    })
    if (isOpen) return { kind: 'open' }
    this.surplus = surplusOf(taken, calls)
    const drawn = taken.map((each) => ({
      ...each,
      granted: Math.min(each.granted, calls * each.weight),
    }))
    const draw = new Draw(calls, endsMs, drawn)
    return { kind: 'drawn', draw, isShort: calls < this.#calls }
  }

  /** Shares and limits of nodes grant all or nothing: they are asked again for what they have. */
  private refused(takes: readonly PlannedTake[], row: readonly DrawOutcome[]): DrawResult {
    let fewer = this.#calls - 1
    for (const [i, take] of takes.entries()) {
      const outcome = row[i]
      const weight = take.atLeast ?? 0
      const left = outcome === undefined || weight === 0 ? 0 : outcome.remaining / weight
      if (outcome?.retryAfterMs !== 0) fewer = Math.min(fewer, Math.floor(left))
    }
    const { retryAfterMs } = this.#decision
    return { kind: 'refused', retryMs: retryAfterMs, canRetryWith: Math.max(0, fewer) }
  }
}

/** Charges calls that a proxy has admitted beyond its leases: counted first, compared then. */
export class UsageCall implements ReportedCalls {
  readonly #call: Call
  #decision: Decision = UNMATCHED
  #isSettled = true

  constructor(call: Call) {
    this.#call = call
  }

  plan(planner: CallPlanner): Plan {
    const planned = planOf(planner, this.#call)
    this.#isSettled = planned.groups === undefined
    if (planned.groups === undefined) {
      this.#decision = planned
      return NOTHING
    }
    return countingFirst({
      matched: planned.matched,
      groups: planned.groups.map((takes) => takes.map(ofStore)),
      shadows: planned.shadows,
    })
  }

  compose(
    plan: Plan,
    outcomes: Groups<KnownOutcome>,
    source: Source,
    extras: DecisionExtras | undefined,
  ): Decision {
    if (!this.#isSettled) this.#decision = combineSpread(plan, outcomes, source, extras)
    return this.#decision
  }

  eachDecision(visit: (decision: Decision, call: Call) => void): void {
    // What no rule matches is counted when it is assigned.
    if (!this.#isSettled) visit(this.#decision, this.#call)
  }
}

/** Gives back what is left of a draw, to the windows that it was taken from. It is no decision. */
export class ReturnCall implements ReportedCalls {
  readonly #plan: Plan
  /** Whether everything has come back by itself, so that the store need not be asked. */
  readonly isNothing: boolean

  constructor({ takes, calls, left }: Draw, nowMs: number) {
    const spent = calls - left
    const given = takes.flatMap(({ take, weight, granted, at, untilMs }) => {
      if (nowMs >= untilMs) return []
      const { key, limit, compiled, durable } = take
      // A rule in shadow may have granted less than the others.
      const amount = spent * weight - granted
      return amount < 0 ? [{ key, limit, compiled, durable, amount, at }] : []
    })
    this.#plan = { matched: [], groups: [given], shadows: [] }
    this.isNothing = given.length === 0
  }

  plan(): Plan {
    return this.#plan
  }

  compose(
    plan: Plan,
    outcomes: Groups<KnownOutcome>,
    source: Source,
    extras: DecisionExtras | undefined,
  ): Decision {
    return combineSpread(plan, outcomes, source, extras)
  }

  eachDecision(): void {}
}

/** A call that cannot be read is refused, or it could be sent to dodge its limits. */
function planOf(planner: CallPlanner, call: Call): ReturnType<CallPlanner['plan']> {
  try {
    return planner.plan(call, CANNOT_WAIT)
  } catch (error) {
    if (error instanceof SluiceError && CALL_ERRORS.has(error.code))
      return shedDecision(undefined, 0)
    throw error
  }
}

function countedTakes({ groups }: Plan): readonly PlannedTake[] {
  return (groups[0] ?? []).filter(({ limit, amount }) => amount > 0 && !isBlock(limit))
}

function counterOf({ key }: PlannedTake): string {
  return `${key.hi} ${key.lo}`
}

function leaseBounds(
  takes: readonly PlannedTake[],
  { proxies, sharers, nodes }: LeaseOptions,
): LeaseBounds {
  let least = Infinity
  let most = Infinity
  let perMs = Infinity
  for (const take of takes) {
    const { limit, amount, compiled } = take
    const calls = limit.capacity / amount / nodes
    const shared = sharers(counterOf(take))
    const isLeased = compiled.coordination === 'leased'
    const share = idleShare(shared) * calls
    least = Math.min(
      least,
      isLeased ? Math.floor(compiled.maxStranded * share) : Math.ceil(HELD_SHARE * share),
    )
    most = Math.min(most, Math.ceil((HELD_SHARE * calls) / proxies))
    perMs = Math.min(perMs, limit.max / amount / limit.windowMs / nodes / shared)
  }
  return { least: Math.max(1, least), most: Math.max(1, least, most), perMs }
}

/**
 * What an idle bucket may hold where so many share a counter, as a part of what the first of them
 * may. It does not give back what it holds when others come, so it cannot be one of so many equal
 * parts: a few would hold everything. All that come later may hold half as much together.
 */
function idleShare(sharers: number): number {
  return sharers <= 1 ? 1 : 0.5 / (sharers * (sharers - 1))
}

/** The calls that a limit could admit at once; 1 of one that can never admit any. */
function mostCalls({ limit, amount }: PlannedTake): number {
  return Math.max(1, Math.floor(limit.capacity / amount))
}

/** The take of one call, for so many calls, or for as many as there are; never beyond the limit. */
function leaseTake(take: PlannedTake, calls: number): PlannedTake {
  const { amount, limit } = take
  if (amount <= 0 || isBlock(limit)) return ofStore(take)
  return { ...ofStore(take), amount: amount * calls, atLeast: amount, overdraw: undefined }
}

/** The same limits as the store alone counts them: see `ofStore`. */
const COUNTED_BY_STORE = new WeakMap<CompiledLimit, CompiledLimit>()

/** A lease is drawn from the store: not from a lease of this node, nor from what it knows of it. */
function ofStore(take: PlannedTake): PlannedTake {
  const { compiled } = take
  if (compiled.coordination !== 'leased' && compiled.coordination !== 'local') return take
  let exact = COUNTED_BY_STORE.get(compiled)
  if (exact === undefined) {
    exact = { ...compiled, coordination: 'exact' }
    COUNTED_BY_STORE.set(compiled, exact)
  }
  return { ...take, compiled: exact }
}

/** Units beyond the calls that all limits granted, as a draw that can only be given back. */
function surplusOf(taken: readonly DrawnTake[], calls: number): Draw | undefined {
  const surplus = taken.flatMap((each) => {
    const granted = each.granted - calls * each.weight
    return granted > 0 ? [{ ...each, granted }] : []
  })
  return surplus.length === 0 ? undefined : new Draw(calls, Infinity, surplus)
}

/** How long units may still count, from now: a bucket is full again, or their windows are over. */
function countedMs({ limit }: PlannedTake, resetAfterMs: number): number {
  const { windowsCounted } = algorithmOf(limit)
  return windowsCounted === 0 ? resetAfterMs : windowsCounted * limit.windowMs
}

function countsWindows({ limit }: PlannedTake): boolean {
  return algorithmOf(limit).windowsCounted > 0
}
