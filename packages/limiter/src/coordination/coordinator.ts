/**
 * Chooses the node decider of each limit of a call by its coordination mode; `exact` limits have
 * none.
 */
import type {
  Coordination,
  CounterKey,
  Limit,
  Outcome,
  Plan,
  PlannedTake,
  Source,
} from '@sluice/core'
import type { Answer, Give, Groups, PeekOutcome, Remote } from '../store.js'
import { NodeCounts } from './node-counts.js'
import { SplitLimits } from './split/split-limits.js'
import type {
  NodeDecider,
  NodeOutcome,
  CoordinationStats,
  CoordinationDeps,
} from './node-decider.js'
import { Leases } from './lease/leases.js'
import { LocalCounts } from './local/local-counts.js'
import { placeInWindow } from './window-placement.js'
import { MixedCall, sourceOf } from './mixed-call.js'
import { emptyStats } from './coordination-stats.js'

/** The clock tolerance of a store that does not state one. */
const CLOCK_TOLERANCE_MS = 100

/** What this node knows of the takes of a plan, in the same places. */
export interface NodePeek {
  readonly outcomes: Groups<(NodeOutcome & { readonly state?: unknown }) | undefined>
  /** Set if this node knows all of them. */
  readonly whole: Groups<NodeOutcome> | undefined
  readonly source: Source
  readonly staleMs: number
}

/** A call that is decided partly on this node, and the draw that it waits for. */
export interface MixedStart {
  readonly mixed: MixedCall
  readonly waiting: Promise<void> | undefined
}

export class Coordinator {
  readonly #leases: NodeDecider
  readonly #local: NodeDecider
  readonly #splitLimits: NodeDecider
  readonly #nodeCounts: NodeDecider
  readonly #choose = ({ compiled }: PlannedTake) => this.deciderOf(compiled.coordination)

  constructor(estimate: CoordinationDeps) {
    this.#leases = new Leases(estimate)
    this.#local = new LocalCounts(estimate)
    this.#splitLimits = new SplitLimits(estimate)
    this.#nodeCounts = new NodeCounts(estimate)
  }

  /** By rule id. */
  get stats(): ReadonlyMap<string, CoordinationStats> {
    const sums = new Map<string, CoordinationStats>()
    for (const node of this.deciders()) {
      for (const [rule, stats] of node.stats) sums.set(rule, add(sums.get(rule), stats))
    }
    return sums
  }

  /**
   * Starts a call. An outcome: the call has one limit, and this node decided it. `store`: the store
   * decides that one limit, and this node learns from it. Undefined if no limit of the call is
   * coordinated.
   */
  begin(plan: Plan, waitMs: number): NodeOutcome | 'store' | MixedStart | undefined {
    const only = onlyTake(plan)
    if (only === undefined) {
      if (!this.concerns(plan)) return undefined
      const mixed = new MixedCall(plan, this.#choose)
      return { mixed, waiting: mixed.begin(waitMs) }
    }
    const node = this.deciderOf(only.compiled.coordination)
    if (node === undefined) return undefined
    const answer = node.take(only, waitMs)
    if (answer === undefined) return 'store'
    if (!(answer instanceof Promise)) return answer
    const mixed = new MixedCall(plan, this.#choose)
    return { mixed, waiting: mixed.beginWith(answer, node) }
  }

  /** The takes as they are sent to the store. */
  storeTakes({ groups }: Plan): Groups<PlannedTake> {
    return groups.map((takes) => takes.map((take) => this.storeTake(take)))
  }

  /** Learns from takes that the store decided. */
  learn({ groups }: Plan, answers: Groups<Answer>, sentMs: number): void {
    for (const [g, takes] of groups.entries()) {
      for (const [i, take] of takes.entries()) {
        const answer = answers[g]?.[i]
        if (answer !== undefined) this.#choose(take)?.learn?.(take, answer, sentMs)
      }
    }
  }

  /** What this node knows of a call that is only peeked at; undefined if nothing. */
  peek(plan: Plan): NodePeek | undefined {
    if (!this.concerns(plan)) return undefined
    const outcomes = plan.groups.map((takes) =>
      takes.map((take) => this.#choose(take)?.peek?.(take)),
    )
    const found = outcomes.flat()
    const staleMs = found.reduce((oldest, outcome) => Math.max(oldest, outcome?.staleMs ?? 0), 0)
    const whole = outcomes.map((row) => row.flatMap((outcome) => outcome ?? []))
    const isLeased = plan.groups.flat().every((take) => sourceOf(take) === 'lease')
    return {
      outcomes,
      whole: found.includes(undefined) ? undefined : whole,
      source: isLeased ? 'lease' : 'local',
      staleMs,
    }
  }

  peekOne(take: PlannedTake): PeekOutcome | undefined {
    const peeked = this.#choose(take)?.peek?.(take)
    return peeked && { ...peeked, state: peeked.state }
  }

  /** Returns units to this node; false if they belong to the store. */
  refund(give: Give, coordination: Coordination): boolean {
    return this.deciderOf(coordination)?.refund?.(give) ?? false
  }

  forget(key: CounterKey): void {
    for (const node of this.deciders()) node.forget(key)
  }

  invalidate(key: CounterKey): void {
    for (const node of this.deciders()) node.invalidate?.(key)
  }

  async close(): Promise<void> {
    await Promise.all(this.deciders().map((node) => node.close()))
  }

  private storeTake(take: PlannedTake): PlannedTake {
    const limit = this.#choose(take)?.storeLimit?.(take)
    return limit === undefined ? take : { ...take, limit }
  }

  private deciders(): readonly NodeDecider[] {
    return [this.#leases, this.#local, this.#splitLimits, this.#nodeCounts]
  }

  private deciderOf(coordination: Coordination): NodeDecider | undefined {
    switch (coordination) {
      case 'exact':
        return undefined
      case 'leased':
        return this.#leases
      case 'local':
        return this.#local
      case 'split':
        return this.#splitLimits
      case 'node':
        return this.#nodeCounts
    }
  }

  private concerns({ groups }: Plan): boolean {
    for (let g = 0; g < groups.length; g++) {
      const takes = groups[g]
      if (takes === undefined) continue
      for (let i = 0; i < takes.length; i++) {
        if (takes[i]?.compiled.coordination !== 'exact') return true
      }
    }
    return false
  }
}

/** The take of a call that has exactly one. */
function onlyTake({ groups }: Plan): PlannedTake | undefined {
  return groups.length === 1 && groups[0]?.length === 1 ? groups[0][0] : undefined
}

/** Whether a limit is `local`, so that its decider needs the states of the store's counters. */
export function needsStates({ groups }: Plan): boolean {
  return groups.some((takes) => takes.some(({ compiled }) => compiled.coordination === 'local'))
}

/** The source of a call with one limit that this node decided. */
export function onlySource(plan: Plan): Source {
  const only = onlyTake(plan)
  return only === undefined ? 'local' : sourceOf(only)
}

/** Replaces outcomes of the store by those of this node. */
export function overlay(
  node: NodePeek | undefined,
  outcomes: Groups<Outcome | PeekOutcome>,
): Groups<Outcome> {
  if (node === undefined) return outcomes
  return outcomes.map((row, g) => row.map((outcome, i) => node.outcomes[g]?.[i] ?? outcome))
}

function add(before: CoordinationStats | undefined, more: CoordinationStats): CoordinationStats {
  if (before === undefined) return more
  const sum = emptyStats()
  for (const name of Object.keys(sum) as (keyof CoordinationStats)[])
    sum[name] = before[name] + more[name]
  return sum
}

/** Makes the function that places a unit spent now on the store's clock. */
export function windowPlacer(
  remote: Remote | undefined,
  time: () => number,
): (limit: Limit) => number {
  const uncertaintyUs = () => remote?.uncertaintyUs?.() ?? 0
  const toleranceUs = (remote?.clockToleranceMs ?? CLOCK_TOLERANCE_MS) * 1000
  const estimate = { time, uncertaintyUs, toleranceUs }
  return (limit) => placeInWindow(estimate, limit)
}
