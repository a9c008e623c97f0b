/**
 * The answers of the slots of a Redis Cluster to one call, and the units that the call still holds.
 */
import { isBlock, isChargedOnRefusal, isConcurrency, type Outcome, type Take } from '@sluice/core'
import type { Answer, Charge, Give, Groups } from '../../store.js'
import { isMarked, markOf } from './hold-marks.js'
import { holdingPlaces, isHeldBack, type TakePlaces } from './take-places.js'

/** A take or peek that was sent to some slots. */
export interface Attempt {
  readonly places: TakePlaces
  readonly verb: 'take' | 'peek'
  /** What is done with the marks of the enforced counters among them. */
  readonly marks: 'none' | 'read' | 'set'
}

/** Units to give back. */
export interface GiveBack extends Give {
  /**
   * What is charged then. A call that would have waited borrowed more than a single Redis charges
   * for a refusal, because it lends nothing to a call that it refuses. Units that the call itself
   * gave back are charged again.
   */
  readonly penalty?: Pick<Charge, 'amount' | 'debt'>
}

/** Whether a refusal is final, was caused by held units, or was not checked for marks. */
export type HoldVerdict = 'stands' | 'held' | 'unknown'

type Row = (Answer | undefined)[]

export class SlotAnswers {
  readonly #groups: Groups<Take>
  /** How long a call may hold the units it took. */
  readonly #holdMs: number
  /** The last answer to each take; undefined if it was not sent yet. */
  readonly #rows: Row[]
  /** For each enforced take, the marks at its last attempt. */
  readonly #marks: (Outcome | undefined)[]

  constructor(groups: Groups<Take>, holdMs: number) {
    this.#groups = groups
    this.#holdMs = Math.max(1, holdMs)
    this.#rows = groups.map((takes) => takes.map(() => undefined))
    this.#marks = this.enforced.map(() => undefined)
  }

  /**
   * Records the answers to an attempt; returns whether some are missing. Answers in `known` were
   * recorded before, and their units may have been given back since, so they are not recorded
   * again.
   */
  record(
    { places, verb, marks }: Attempt,
    answers: Groups<Answer>,
    known?: Groups<Answer>,
  ): boolean {
    const isKept = (g: number, n: number) => typeof known?.[g]?.[n] === 'object'
    let isSilent = false
    for (const [g, indices] of places.entries()) {
      const row = this.#rows[g] ?? []
      for (const [n, i] of indices.entries()) {
        const answer = answers[g]?.[n] ?? 'unknown'
        if (typeof answer === 'string') isSilent = true
        if (isKept(g, n)) continue
        row[i] = typeof answer === 'string' && verb === 'peek' ? 'not-run' : answer
      }
    }
    if (marks === 'none') return isSilent
    for (const [n, i] of holdingPlaces(this.#groups[0], places[0]).entries()) {
      const mark = answers[places.length]?.[n]
      if (isKept(places.length, n)) continue
      this.#marks[i] = typeof mark === 'object' ? mark : undefined
    }
    return isSilent
  }

  /** A copy of the answers to the enforced takes, for `restore`. */
  enforcedAnswers(): readonly (Answer | undefined)[] {
    return [...this.enforced]
  }

  restore(before: readonly (Answer | undefined)[]): void {
    this.enforced.splice(0, before.length, ...before)
  }

  /** Where a slot is silent now, what refused the call before still does. */
  restoreRefusal(before: readonly (Answer | undefined)[]): void {
    const known = this.enforced.map((now, i) => (typeof now === 'string' ? before[i] : now))
    if (known.some(isRefusal)) this.restore(known)
  }

  isPassed(): boolean {
    return !this.enforced.some(isRefusal)
  }

  hasRefused(indices: readonly number[]): boolean {
    return indices.some((i) => isRefusal(this.enforced[i]))
  }

  verdict(indices: readonly number[]): HoldVerdict {
    let verdict: HoldVerdict = 'stands'
    for (const i of indices) {
      const answer = this.enforced[i]
      if (!isRefusal(answer)) continue
      if (this.isBlockAt(i)) return 'stands'
      const mark = this.#marks[i]
      if (answer.retryAfterMs === null || (mark !== undefined && !isMarked(mark))) return 'stands'
      // Held units, but the limit's own wait is no longer than a call may hold them. How long
      // places are taken is not known.
      const isKnown = !this.isPlacesAt(i) && answer.retryAfterMs <= this.#holdMs
      if (mark !== undefined && isKnown) return 'stands'
      if (mark === undefined) verdict = 'unknown'
      else if (verdict === 'stands') verdict = 'held'
    }
    return verdict
  }

  /**
   * The places of limits that used units refuse for a time, each with that of its block, where the
   * block has not begun.
   */
  blocksToBegin(indices: readonly number[]): readonly number[] {
    return indices.flatMap((i) => {
      const answer = this.enforced[i]
      const mark = this.#marks[i]
      const isOver = isRefusal(answer) && answer.retryAfterMs !== null && !this.isBlockAt(i)
      const isUsed = mark !== undefined && !isMarked(mark)
      const isFree = this.isBlockAt(i + 1) && !isRefusal(this.enforced[i + 1])
      return isOver && isUsed && isFree ? [i, i + 1] : []
    })
  }

  /** The enforced takes that were not sent yet, without those that wait until all have passed. */
  openEnforced(): readonly number[] {
    return this.openIn(0).filter((i) => !this.isHeldBackAt(0, i))
  }

  /** All takes that were not sent yet. */
  openPlaces(): TakePlaces | undefined {
    return toPlaces(this.#rows.map((_, g) => this.openIn(g)))
  }

  /** Those of them that do not wait until the rest of their group has passed. */
  openUnheld(): TakePlaces | undefined {
    return toPlaces(
      this.#rows.map((_, g) => this.openIn(g).filter((i) => !this.isHeldBackAt(g, i))),
    )
  }

  /** The takes that give back in groups that have passed. */
  openBacks(): TakePlaces | undefined {
    return toPlaces(this.#rows.map((row, g) => (row.some(isRefusal) ? [] : this.openIn(g))))
  }

  /** Makes the shadow groups be sent once more. */
  forgetShadows(): void {
    for (const row of this.#rows.slice(1)) row.fill(undefined)
  }

  /**
   * Gives up the units that were taken in these places: returns the units first, then their marks.
   * A limit that charges for refusals keeps what it took if its group was finally refused, unless
   * it is in a shadow group that the enforced group kept from being reached. What was given back is
   * charged again.
   */
  takeBack(places: TakePlaces, isFinal: boolean): readonly GiveBack[] {
    const isOpen = this.isPassed()
    const gives: GiveBack[] = []
    for (const [g, indices] of places.entries()) {
      const row = this.#rows[g] ?? []
      for (const i of indices) {
        const take = this.#groups[g]?.[i]
        const answer = row[i]
        if (take === undefined || typeof answer !== 'object' || answer.granted === 0) continue
        const { key, limit } = take
        const { granted, at } = answer
        const give = { key, limit, amount: granted, at, undone: true }
        if (isFinal && isChargedOnRefusal(take) && (g === 0 || isOpen)) {
          const isLent = limit.borrowable > 0 && answer.delayMs > 0
          const debt = take.overdraw === true ? limit.debt : 0
          if (isLent) gives.push({ ...give, penalty: { amount: granted, debt } })
          if (isLent) row[i] = { ...answer, delayMs: 0 }
          continue
        }
        if (granted > 0) gives.push(give)
        else {
          const penalty = { amount: -granted, debt: limit.debt }
          gives.push({ ...give, amount: 0, at: take.at ?? at, penalty })
        }
        const remaining = Math.max(0, Math.min(limit.capacity, answer.remaining + granted))
        row[i] = { ...answer, granted: 0, delayMs: 0, remaining }
      }
    }
    return [...gives, ...this.takeMarks(places[0] ?? [])]
  }

  /** Gives up the units of shadow groups that were refused as a whole. */
  takeBackShadows(): readonly GiveBack[] {
    const refused = this.#rows.map((row, g) =>
      g > 0 && row.some(isRefusal) ? [...row.keys()] : [],
    )
    return this.takeBack(refused, true)
  }

  /** Gives up the marks that the call has set. */
  takeMarks(indices: readonly number[] = [...this.enforced.keys()]): readonly Give[] {
    const gives: Give[] = []
    for (const i of indices) {
      const mark = this.#marks[i]
      const take = this.#groups[0]?.[i]
      if (mark === undefined || mark.granted === 0 || take === undefined) continue
      const { key, limit } = markOf(take.key, 1)
      gives.push({ key, limit, amount: 1, at: mark.at })
      this.#marks[i] = { ...mark, granted: 0, remaining: mark.remaining + 1 }
    }
    return gives
  }

  admittedAnswers(): Groups<Answer> {
    return this.#rows.map((row, g) =>
      row.map((answer, i) => {
        if (answer !== undefined) return answer
        return this.isHeldBackAt(g, i) ? notReached(this.#groups[g]?.[i]) : 'not-run'
      }),
    )
  }

  refusedAnswers(): Groups<Answer> {
    const isFinal = this.enforced.some((each) => isRefusal(each) && each.retryAfterMs === null)
    return this.#rows.map((row, g) =>
      row.map((answer, i) => {
        if (g === 0 && answer !== undefined) return this.withHold(answer, i, isFinal)
        return typeof answer === 'object' ? answer : notReached(this.#groups[g]?.[i])
      }),
    )
  }

  /** The answers so far; takes that were given back or only peeked at count as `not-run`. */
  silentAnswers(): Groups<Answer> {
    return this.#rows.map((row, g) =>
      row.map((answer, i) => {
        const amount = this.#groups[g]?.[i]?.amount ?? 0
        const isTaken = typeof answer !== 'object' || answer.granted !== 0 || amount === 0
        return answer === undefined || !(isTaken || isRefusal(answer)) ? 'not-run' : answer
      }),
    )
  }

  /** The places of a group whose takes were not sent yet. */
  private openIn(g: number): readonly number[] {
    const row = this.#rows[g] ?? []
    return [...row.keys()].filter((i) => row[i] === undefined)
  }

  private isHeldBackAt(g: number, i: number): boolean {
    return isHeldBack(this.#groups[g] ?? [], i)
  }

  /** Whether an enforced take is of a block. Held units never cause a refusal by it. */
  private isBlockAt(i: number): boolean {
    const take = this.#groups[0]?.[i]
    return take !== undefined && isBlock(take.limit)
  }

  private isPlacesAt(i: number): boolean {
    const take = this.#groups[0]?.[i]
    return take !== undefined && isConcurrency(take.limit)
  }

  private get enforced(): Row {
    return this.#rows[0] ?? []
  }

  /**
   * Shortens the wait of a refusal that held units may have caused to the length of a hold. If
   * another limit refuses the call for ever, trying that early would not help, and the wait stays.
   */
  private withHold(answer: Answer, i: number, isFinal: boolean): Answer {
    if (!isRefusal(answer) || answer.retryAfterMs === null || this.isBlockAt(i)) return answer
    const mark = this.#marks[i]
    if (mark !== undefined && !isMarked(mark)) return answer
    const holdMs = isFinal ? answer.retryAfterMs : this.#holdMs
    return { ...answer, retryAfterMs: Math.min(answer.retryAfterMs, holdMs), held: true }
  }
}

export function isRefusal(answer: Answer | undefined): answer is Exclude<Answer, string> {
  return typeof answer === 'object' && answer.retryAfterMs !== 0
}

function toPlaces(places: TakePlaces): TakePlaces | undefined {
  return places.some((indices) => indices.length > 0) ? places : undefined
}

/** The outcome of a limit that a refused call did not reach. */
function notReached(take: Take | undefined): Answer {
  const remaining = take?.limit.capacity ?? 0
  return { granted: 0, remaining, resetAfterMs: 0, retryAfterMs: 0, delayMs: 0, at: 0 }
}
