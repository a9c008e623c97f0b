/**
 * A call of which some limits are decided on this node and the rest by the store. What this node
 * grants is spent first, and put back if the store refuses the call.
 */
import {
  isChargedOnRefusal,
  type Outcome,
  type Plan,
  type PlannedTake,
  passes,
  type Source,
} from '@sluice/core'
import type { Answer, Groups } from '../store.js'
import type { NodeDecider, NodeOutcome, UnansweredDraw, DrawResult } from './node-decider.js'

/** The node decider of a take; undefined if the store decides it. */
export type ChooseDecider = (take: PlannedTake) => NodeDecider | undefined

/** The outcome of one take on this node. */
interface NodeDecision {
  readonly take: PlannedTake
  readonly decider: NodeDecider
  readonly outcome: NodeOutcome
}

/** One group: for each take what this node decided; undefined if the store decides it. */
type Row = (NodeDecision | undefined)[]

export class MixedCall {
  readonly plan: Plan
  readonly #choose: ChooseDecider
  readonly #rows: Row[] = []
  /** For each group of `rest` after the first, its index in the plan. */
  readonly #restGroups: number[] = []
  /** Shadow groups that this node refuses: nothing of them is sent to the store. */
  readonly #refusedOnNode = new Set<number>()
  #rest: Plan | undefined
  #isRefused = false
  /** Unanswered draws of enforced limits; the store is not called again for them. */
  readonly #unanswered = new Map<PlannedTake, UnansweredDraw>()

  constructor(plan: Plan, choose: ChooseDecider) {
    this.plan = plan
    this.#choose = choose
  }

  /** What is left for the store; undefined if nothing, or if this node has refused the call. */
  get rest(): Plan | undefined {
    return this.#rest
  }

  get isRefused(): boolean {
    return this.#isRefused
  }

  get isSilent(): boolean {
    return this.#unanswered.size > 0
  }

  /**
   * The fate of the rest without another store call: that of each draw, and `not-run` for others.
   */
  get silences(): Groups<Answer> {
    const { groups = [] } = this.#rest ?? {}
    return groups.map((takes) =>
      takes.map((take) => this.#unanswered.get(take)?.silence ?? 'not-run'),
    )
  }

  /** The call was admitted without the store: if a draw did run, its units are spent. */
  onAdmitted(): void {
    for (const draw of this.#unanswered.values()) draw.onAdmitted()
  }

  /**
   * Decides what this node can decide; a promise if a draw has to be waited for. It waits only if
   * no enforced limit needs the store itself: otherwise two round trips would add up, so the store
   * decides along with it what no lease can serve.
   */
  begin(waitMs: number): Promise<void> | undefined {
    const takes = this.plan.groups[0] ?? []
    const mayWait = takes.every((take) => this.#choose(take)?.isReady(take) === true)
    return this.group(0, mayWait ? waitMs : 0)
  }

  /** Starts a call whose only limit waits for this draw. */
  beginWith(draw: Promise<DrawResult>, decider: NodeDecider): Promise<void> | undefined {
    const row: Row = [undefined]
    this.#rows.push(row)
    const [take] = this.plan.groups[0] ?? []
    if (take === undefined) return this.next(0)
    return draw.then((result) => {
      this.onDrawResult(row, 0, take, decider, result)
      return this.next(0)
    })
  }

  /** The outcomes if nothing is left for the store. */
  get outcomes(): Groups<Outcome> {
    return this.#rows.map((row) => row.flatMap((decision) => decision?.outcome ?? []))
  }

  /** The limits that refused the call on this node, as a plan of their own. */
  refusal(): { readonly plan: Plan; readonly outcomes: Groups<Outcome> } {
    const refusing = (this.#rows[0] ?? []).flatMap((decision) =>
      decision === undefined || decision.outcome.retryAfterMs === 0 ? [] : decision,
    )
    const { matched } = this.plan
    const groups = [refusing.map(({ take }) => take)]
    return {
      plan: { matched, groups, shadows: [] },
      outcomes: [refusing.map(({ outcome }) => outcome)],
    }
  }

  /** Merges the outcomes of this node and of the store, in the places of the plan. */
  merge(rest: Groups<Outcome>): Groups<Outcome> {
    return this.#rows.map((row, g) => {
      const at = g === 0 ? 0 : this.#restGroups.indexOf(g) + 1
      const answers = g > 0 && at === 0 ? [] : (rest[at] ?? [])
      let next = 0
      return row.flatMap((decision) => decision?.outcome ?? answers[next++] ?? [])
    })
  }

  /** Puts back everything that this node granted, because the call is refused. */
  putBack(): void {
    for (const row of this.#rows) putBackRow(row)
  }

  /** Puts back what this node granted to the groups that the rest of the call refuses. */
  putBackRefused(rest: Groups<Outcome>): void {
    if (!passes(rest[0] ?? [])) return this.putBack()
    for (const [i, g] of this.#restGroups.entries()) {
      const row = this.#rows[g]
      if (row !== undefined && !passes(rest[i + 1] ?? [])) putBackRow(row)
    }
  }

  /** The least exact source among the outcomes of this node. */
  get source(): Source {
    const isLocal = this.decisions().some(({ take }) => sourceOf(take) === 'local')
    return isLocal ? 'local' : 'lease'
  }

  get staleMs(): number {
    return this.decisions().reduce((oldest, { outcome }) => Math.max(oldest, outcome.staleMs), 0)
  }

  private decisions(): readonly NodeDecision[] {
    return this.#rows.flatMap((row) => row.flatMap((decision) => decision ?? []))
  }

  /** Decides one group after the other: the first opens the others. */
  private group(at: number, waitMs: number): Promise<void> | undefined {
    const takes = this.plan.groups[at]
    if (takes === undefined) return this.finish()
    const row: Row = []
    const waiting: Promise<void>[] = []
    for (const [i, take] of takes.entries()) {
      const decider = this.#choose(take)
      const answer = decider?.take(take, waitMs)
      if (decider === undefined || answer === undefined) row.push(undefined)
      else if (answer instanceof Promise) {
        row.push(undefined)
        waiting.push(answer.then((result) => this.onDrawResult(row, i, take, decider, result)))
      } else row.push({ take, decider, outcome: answer })
    }
    this.#rows.push(row)
    if (waiting.length === 0) return this.next(at)
    return Promise.all(waiting).then(() => this.next(at))
  }

  private onDrawResult(
    row: Row,
    i: number,
    take: PlannedTake,
    decider: NodeDecider,
    result: DrawResult,
  ): void {
    if (result === 'store') return
    if ('silence' in result) this.#unanswered.set(take, result)
    else row[i] = { take, decider, outcome: result }
  }

  private next(at: number): Promise<void> | undefined {
    const row = this.#rows[at] ?? []
    const hasRoom = row.every((decision) => decision === undefined || passes([decision.outcome]))
    if (hasRoom) {
      // A shadow group is charged whole: if one limit needs the store, the store decides the rest.
      if (at > 0 && row.includes(undefined)) this.leaveToStore(at)
      return this.group(at + 1, 0)
    }
    if (at > 0) {
      putBackRow(row)
      this.#refusedOnNode.add(at)
      return this.group(at + 1, 0)
    }
    if (this.mustAskStore(row)) {
      this.leaveToStore(0)
      return this.group(1, 0)
    }
    putBackRow(row)
    this.#isRefused = true
    return undefined
  }

  /**
   * Whether a limit must charge the refusal in the store, which decides the whole call then. Not if
   * a limit refused of which this node knows more than the store: the store would admit the call.
   */
  private mustAskStore(refused: Row): boolean {
    const isFinal = refused.some((decision) => {
      if (decision === undefined || passes([decision.outcome])) return false
      return decision.take.compiled.coordination === 'local' || isOfNodes(decision)
    })
    return !isFinal && (this.plan.groups[0] ?? []).some(isChargedOnRefusal)
  }

  /** Leaves a group to the store, except limits that the store never counts. */
  private leaveToStore(at: number): void {
    const row = this.#rows[at] ?? []
    const kept = row.map((decision) => (isOfNodes(decision) ? decision : undefined))
    putBackRow(row.filter((_, i) => kept[i] === undefined))
    this.#rows[at] = kept
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

  private restOf(group: number): PlannedTake[] {
    if (this.#refusedOnNode.has(group)) return []
    return (this.plan.groups[group] ?? []).filter((_, i) => this.#rows[group]?.[i] === undefined)
  }
}

export function sourceOf({ compiled }: PlannedTake): Source {
  return compiled.coordination === 'leased' ? 'lease' : 'local'
}

/** Whether the take belongs to a limit that only nodes count. */
function isOfNodes(decision: NodeDecision | undefined): decision is NodeDecision {
  const coordination = decision?.take.compiled.coordination
  return coordination === 'split' || coordination === 'node'
}

/** Puts granted units back and marks them as returned, so that it happens once. */
function putBackRow(row: Row): void {
  for (const [i, decision] of row.entries()) {
    if (decision === undefined || decision.outcome.granted === 0) continue
    const { take, decider, outcome } = decision
    decider.putBack(take, outcome)
    row[i] = { take, decider, outcome: { ...outcome, granted: 0 } }
  }
}
