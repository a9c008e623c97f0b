/** Chooses for each limit of a call what on this node decides it; most limits have nothing here. */
import type {
  Coordination,
  CounterKey,
  Limit,
  Outcome,
  Plan,
  PlannedTake,
  Source,
} from '@sluice/core'
import type { Answer, Give, Groups, Peeked, Remote } from '../store.js'
import { Allowances } from './allowances.js'
import type { Here, HereOutcome, HereStats, NodeParts } from './here.js'
import { Leases } from './leases.js'
import { LocalCounts } from './local-counts.js'
import { placeAt } from './node-time.js'
import { SplitCall, sourceOf } from './split-call.js'
import { emptyTally } from './tally.js'

/** How far off a store's clock may be that says nothing of its own. */
const CLOCK_TOLERANCE_MS = 100

/** What was looked up on this node, in the places of a plan. */
export interface LookedHere {
  readonly outcomes: Groups<(HereOutcome & { readonly state?: unknown }) | undefined>
  /** The same where nothing is left to ask the store. */
  readonly whole: Groups<HereOutcome> | undefined
  readonly source: Source
  readonly staleMs: number
}

/** A call that is decided in two places, and what it waits for first. */
export interface Begun {
  readonly split: SplitCall
  readonly waiting: Promise<void> | undefined
}

export class Coordinator {
  readonly #leases: Here
  readonly #local: Here
  readonly #allowances: Here
  readonly #choose = ({ of }: PlannedTake) => this.of(of.coordination)

  constructor(parts: NodeParts) {
    this.#leases = new Leases(parts)
    this.#local = new LocalCounts(parts)
    this.#allowances = new Allowances(parts)
  }

  /** By the id of the rule. */
  get stats(): ReadonlyMap<string, HereStats> {
    const sums = new Map<string, HereStats>()
    for (const here of this.all()) {
      for (const [rule, stats] of here.stats) sums.set(rule, add(sums.get(rule), stats))
    }
    return sums
  }

  /**
   * An outcome: of the only limit that the call has, as most have one. `ask`: the store decides
   * that one, and this node learns from it. Undefined where no limit has anything to do with this.
   */
  begin(plan: Plan, waitMs: number): HereOutcome | 'ask' | Begun | undefined {
    const only = onlyTake(plan)
    if (only === undefined) {
      if (!this.concerns(plan)) return undefined
      const split = new SplitCall(plan, this.#choose)
      return { split, waiting: split.begin(waitMs) }
    }
    const here = this.of(only.of.coordination)
    if (here === undefined) return undefined
    const answer = here.take(only, waitMs)
    if (answer === undefined) return 'ask'
    if (!(answer instanceof Promise)) return answer
    const split = new SplitCall(plan, this.#choose)
    return { split, waiting: split.beginWith(answer, here) }
  }

  /** What the store decides itself, as it is asked for it. */
  sent({ groups }: Plan): Groups<PlannedTake> {
    return groups.map((takes) => takes.map((take) => this.asSent(take)))
  }

  /** The store decided these takes itself. */
  learn({ groups }: Plan, answers: Groups<Answer>, sentMs: number): void {
    for (const [g, takes] of groups.entries()) {
      for (const [i, take] of takes.entries()) {
        const answer = answers[g]?.[i]
        if (answer !== undefined) this.#choose(take)?.learn?.(take, answer, sentMs)
      }
    }
  }

  /** What is known here of a call that only asks; undefined where that is nothing. */
  look(plan: Plan): LookedHere | undefined {
    if (!this.concerns(plan)) return undefined
    const outcomes = plan.groups.map((takes) =>
      takes.map((take) => this.#choose(take)?.look?.(take)),
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

  lookAt(take: PlannedTake): Peeked | undefined {
    const looked = this.#choose(take)?.look?.(take)
    return looked && { ...looked, state: looked.state }
  }

  /** Whether these units were returned here; if not, they belong to the store. */
  refund(give: Give, coordination: Coordination): boolean {
    return this.of(coordination)?.refund?.(give) ?? false
  }

  forget(key: CounterKey): void {
    for (const here of this.all()) here.forget(key)
  }

  gaveBack(key: CounterKey): void {
    for (const here of this.all()) here.gaveBack?.(key)
  }

  async close(): Promise<void> {
    await Promise.all(this.all().map((here) => here.close()))
  }

  private asSent(take: PlannedTake): PlannedTake {
    const limit = this.#choose(take)?.inStore?.(take)
    return limit === undefined ? take : { ...take, limit }
  }

  private all(): readonly Here[] {
    return [this.#leases, this.#local, this.#allowances]
  }

  private of(coordination: Coordination): Here | undefined {
    if (coordination === 'exact') return undefined
    if (coordination === 'leased') return this.#leases
    return coordination === 'local' ? this.#local : this.#allowances
  }

  private concerns({ groups }: Plan): boolean {
    for (let g = 0; g < groups.length; g++) {
      const takes = groups[g]
      if (takes === undefined) continue
      for (let i = 0; i < takes.length; i++) {
        if (takes[i]?.of.coordination !== 'exact') return true
      }
    }
    return false
  }
}

/** The take of a call that has one. */
function onlyTake({ groups }: Plan): PlannedTake | undefined {
  return groups.length === 1 && groups[0]?.length === 1 ? groups[0][0] : undefined
}

/** Whether what counts here needs to know the states that the store has of these counters. */
export function needsStates({ groups }: Plan): boolean {
  return groups.some((takes) => takes.some(({ of }) => of.coordination === 'local'))
}

/** Who decided a call of one limit here. */
export function onlySource(plan: Plan): Source {
  const only = onlyTake(plan)
  return only === undefined ? 'local' : sourceOf(only)
}

/** What is known here stands in the place of what the store said. */
export function overlay(
  here: LookedHere | undefined,
  outcomes: Groups<Outcome | Peeked>,
): Groups<Outcome> {
  if (here === undefined) return outcomes
  return outcomes.map((row, g) => row.map((outcome, i) => here.outcomes[g]?.[i] ?? outcome))
}

function add(before: HereStats | undefined, more: HereStats): HereStats {
  if (before === undefined) return more
  const sum = emptyTally()
  for (const name of Object.keys(sum) as (keyof HereStats)[]) sum[name] = before[name] + more[name]
  return sum
}

/** Where a unit belongs that is spent here now, by the store's clock as this node knows it. */
export function placing(remote: Remote | undefined, time: () => number): (limit: Limit) => number {
  const uncertaintyUs = () => remote?.uncertaintyUs?.() ?? 0
  const toleranceUs = (remote?.clockToleranceMs ?? CLOCK_TOLERANCE_MS) * 1000
  const parts = { time, uncertaintyUs, toleranceUs }
  return (limit) => placeAt(parts, limit)
}
