/**
 * A call that is decided in two places: some of its limits on this node, the rest by the store.
 * What was granted here is spent first, and put back if the call is refused elsewhere.
 */
import { type Outcome, type Plan, type PlannedTake, passes, type Source } from '@sluice/core'
import type { Groups } from '../store.js'
import type { Here, HereOutcome, Waited } from './here.js'

/** Who decides a take here; undefined: the store. */
export type Chooser = (take: PlannedTake) => Here | undefined

/** What a node says to one take that is its own to decide. */
interface Decided {
  readonly take: PlannedTake
  readonly by: Here
  readonly outcome: HereOutcome
}

/** One group: in the place of each take what was decided here; undefined: the store has it. */
type Row = (Decided | undefined)[]

interface First {
  readonly answer: HereOutcome | Promise<Waited> | undefined
}

export class SplitCall {
  readonly plan: Plan
  readonly #choose: Chooser
  readonly #first: First | undefined
  readonly #rows: Row[] = []
  /** Beside each group of `rest`, from 1 on, its place in the plan. */
  readonly #restGroups: number[] = []
  /** Shadow groups that a limit here refuses: nothing of them is asked of the store. */
  readonly #refusedHere = new Set<number>()
  #rest: Plan | undefined
  #isRefused = false
  /** A draw that this call waited for was not answered: the store is not asked again. */
  #isSilent = false

  /** `first`: what was already said to its only limit. */
  constructor(plan: Plan, choose: Chooser, first?: First) {
    this.plan = plan
    this.#choose = choose
    this.#first = first
  }

  /** What is left for the store; undefined: nothing, or a limit here has refused the call. */
  get rest(): Plan | undefined {
    return this.#rest
  }

  get isRefused(): boolean {
    return this.#isRefused
  }

  get isSilent(): boolean {
    return this.#isSilent
  }

  /** The rest as the store is asked for it. */
  get sent(): Groups<PlannedTake> {
    const { groups = [] } = this.#rest ?? {}
    return groups.map((takes) => takes.map((take) => this.asSent(take)))
  }

  /** Whether what counts here needs to know the states that the store has of the rest. */
  get needsStates(): boolean {
    const { groups = [] } = this.#rest ?? {}
    return groups.some((takes) => takes.some(({ of }) => of.coordination === 'local'))
  }

  /** Decides what can be decided here; a promise where a draw has to be waited for. */
  begin(): Promise<void> | undefined {
    return this.group(0)
  }

  /** What is known when nothing is left for the store. */
  get outcomes(): Groups<Outcome> {
    return this.#rows.map((row) => row.flatMap((decided) => decided?.outcome ?? []))
  }

  /** The limits that refused the call here, as a plan of their own. */
  refusal(): { readonly plan: Plan; readonly outcomes: Groups<Outcome> } {
    const refusing = (this.#rows[0] ?? []).flatMap((decided) =>
      decided === undefined || decided.outcome.retryAfterMs === 0 ? [] : decided,
    )
    const { matched } = this.plan
    const groups = [refusing.map(({ take }) => take)]
    return {
      plan: { matched, groups, shadows: [] },
      outcomes: [refusing.map(({ outcome }) => outcome)],
    }
  }

  /** What was decided here and what the store says of the rest, in the places of the plan. */
  merge(rest: Groups<Outcome>): Groups<Outcome> {
    return this.#rows.map((row, g) => {
      const at = g === 0 ? 0 : this.#restGroups.indexOf(g) + 1
      const answers = g > 0 && at === 0 ? [] : (rest[at] ?? [])
      let next = 0
      return row.flatMap((decided) => decided?.outcome ?? answers[next++] ?? [])
    })
  }

  /** The call is refused: nothing that was granted here stays taken. */
  putBack(): void {
    for (const row of this.#rows) putBackRow(row)
  }

  /** Of the outcomes made here, the least exact. */
  get source(): Source {
    const isLocal = this.decided().some(({ take }) => sourceOf(take) === 'local')
    return isLocal ? 'local' : 'lease'
  }

  get staleMs(): number {
    return this.decided().reduce((oldest, { outcome }) => Math.max(oldest, outcome.staleMs), 0)
  }

  private decided(): readonly Decided[] {
    return this.#rows.flatMap((row) => row.flatMap((decided) => decided ?? []))
  }

  /** One group after the other: the first opens the others. */
  private group(at: number): Promise<void> | undefined {
    const takes = this.plan.groups[at]
    if (takes === undefined) return this.finish()
    const row: Row = []
    const waiting: Promise<void>[] = []
    for (const [i, take] of takes.entries()) {
      const by = this.#choose(take)
      const answer = this.#first === undefined ? by?.take(take) : this.#first.answer
      if (by === undefined || answer === undefined) row.push(undefined)
      else if (answer instanceof Promise) {
        row.push(undefined)
        waiting.push(answer.then((waited) => this.waited(row, i, take, by, waited)))
      } else row.push({ take, by, outcome: answer })
    }
    this.#rows.push(row)
    if (waiting.length === 0) return this.next(at)
    return Promise.all(waiting).then(() => this.next(at))
  }

  private waited(row: Row, i: number, take: PlannedTake, by: Here, waited: Waited): void {
    if (waited === 'silent') this.#isSilent = true
    else if (waited !== 'ask') row[i] = { take, by, outcome: waited }
  }

  private next(at: number): Promise<void> | undefined {
    const row = this.#rows[at] ?? []
    const hasRoom = row.every((decided) => decided === undefined || passes([decided.outcome]))
    if (hasRoom) {
      // A shadow group is charged whole: with one limit in the store, all of it is decided there.
      if (at > 0 && row.includes(undefined)) this.leaveToStore(at)
      return this.group(at + 1)
    }
    putBackRow(row)
    if (at === 0) {
      this.#isRefused = true
      return undefined
    }
    this.#refusedHere.add(at)
    return this.group(at + 1)
  }

  private leaveToStore(at: number): void {
    const row = this.#rows[at] ?? []
    putBackRow(row)
    this.#rows[at] = row.map(() => undefined)
  }

  private finish(): undefined {
    const groups: PlannedTake[][] = [this.restOf(0)]
    const shadows: string[] = []
    for (let g = 1; g < this.plan.groups.length; g++) {
      const rest = this.restOf(g)
      if (rest.length === 0) continue
      this.#restGroups.push(g)
      groups.push(rest)
      shadows.push(this.plan.shadows[g - 1] ?? '')
    }
    const isLeft = groups.some((takes) => takes.length > 0)
    if (isLeft) this.#rest = { matched: this.plan.matched, groups, shadows }
    return undefined
  }

  private asSent(take: PlannedTake): PlannedTake {
    const limit = this.#choose(take)?.inStore?.(take)
    return limit === undefined ? take : { ...take, limit }
  }

  private restOf(group: number): PlannedTake[] {
    if (this.#refusedHere.has(group)) return []
    return (this.plan.groups[group] ?? []).filter((_, i) => this.#rows[group]?.[i] === undefined)
  }
}

export function sourceOf({ of }: PlannedTake): Source {
  return of.coordination === 'leased' ? 'lease' : 'local'
}

/** Once: what it was granted is marked as returned. */
function putBackRow(row: Row): void {
  for (const [i, decided] of row.entries()) {
    if (decided === undefined || decided.outcome.granted === 0) continue
    const { take, by, outcome } = decided
    by.putBack(take, outcome)
    row[i] = { take, by, outcome: { ...outcome, granted: 0 } }
  }
}
