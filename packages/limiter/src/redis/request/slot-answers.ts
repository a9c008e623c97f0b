/** What the slots of a Redis Cluster answered to one call, and what of it the call still has. */
import type { Outcome, Take } from '@sluice/core'
import type { Answer, Give, Groups } from '../../store.js'
import { isMarked, markOf } from './hold-marks.js'
import { isCharging, type TakePlaces } from './take-places.js'

/** What was asked of some slots. */
export interface Attempt {
  readonly places: TakePlaces
  readonly verb: 'take' | 'peek'
  /** What is done with the marks of the enforced counters among them. */
  readonly marks: 'none' | 'read' | 'set'
}

/** Units to give back. */
export interface GiveBack extends Give {
  /**
   * What the limit charges for the refusal after that, down to empty. A call that would have waited
   * was lent more than that, and one Redis lends nothing to a call that it refuses.
   */
  readonly penalty?: number
}

/** What is known of a refusal: it stands, it is due to held units, or nobody has looked. */
export type HoldVerdict = 'stands' | 'held' | 'unknown'

type Row = (Answer | undefined)[]

export class SlotAnswers {
  readonly #groups: Groups<Take>
  /** How long a call may hold what it took. */
  readonly #holdMs: number
  /** The last answer to each take; undefined: it was not asked for yet. */
  readonly #rows: Row[]
  /** For each enforced take, what its marks said when it was last asked for. */
  readonly #marks: (Outcome | undefined)[]

  constructor(groups: Groups<Take>, holdMs: number) {
    this.#groups = groups
    this.#holdMs = Math.max(1, holdMs)
    this.#rows = groups.map((takes) => takes.map(() => undefined))
    this.#marks = this.enforced.map(() => undefined)
  }

  /**
   * Keeps what an attempt was answered; returns whether some of it was not. What `known` says of
   * the same attempt was kept before, and may have been given back since: it is not kept again.
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
    for (const [n, i] of (places[0] ?? []).entries()) {
      const mark = answers[places.length]?.[n]
      if (isKept(places.length, n)) continue
      this.#marks[i] = typeof mark === 'object' ? mark : undefined
    }
    return isSilent
  }

  /** The answers to the enforced takes as they are now, to go back to. */
  enforcedAnswers(): readonly (Answer | undefined)[] {
    return [...this.enforced]
  }

  restore(before: readonly (Answer | undefined)[]): void {
    this.enforced.splice(0, before.length, ...before)
  }

  /** Where there is silence now, what refused the call before does so still. */
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
      const mark = this.#marks[i]
      if (answer.retryAfterMs === null || (mark !== undefined && !isMarked(mark))) return 'stands'
      // Held, but what the limit asks to wait is no longer than a call may hold.
      if (mark !== undefined && answer.retryAfterMs <= this.#holdMs) return 'stands'
      if (mark === undefined) verdict = 'unknown'
      else if (verdict === 'stands') verdict = 'held'
    }
    return verdict
  }

  /** The enforced takes that were not asked for yet. */
  openEnforced(): readonly number[] {
    return [...this.enforced.keys()].filter((i) => this.enforced[i] === undefined)
  }

  /** All takes that were not asked for yet. */
  openPlaces(): TakePlaces | undefined {
    const places = this.#rows.map((row, g) => {
      if (g === 0) return this.openEnforced()
      return row.length > 0 && row[0] === undefined ? [...row.keys()] : []
    })
    return places.some((indices) => indices.length > 0) ? places : undefined
  }

  /** The shadow groups are to be asked once more. */
  forgetShadows(): void {
    for (const row of this.#rows.slice(1)) row.fill(undefined)
  }

  /**
   * What was taken in these places, which is no longer the call's: units first, then their marks. A
   * limit that charges for a refusal keeps what it took, if its group was refused for good; not in
   * a shadow group that the enforced one kept shut.
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
        if (isFinal && isCharging(take) && (g === 0 || isOpen)) {
          const isLent = limit.borrowable > 0 && answer.delayMs > 0
          if (isLent) gives.push({ ...give, penalty: granted })
          if (isLent) row[i] = { ...answer, delayMs: 0 }
          continue
        }
        gives.push(give)
        const remaining = Math.min(limit.capacity, answer.remaining + granted)
        row[i] = { ...answer, granted: 0, delayMs: 0, remaining }
      }
    }
    return [...gives, ...this.takeMarks(places[0] ?? [])]
  }

  /** What shadow groups took that were refused as a whole. */
  takeBackShadows(): readonly GiveBack[] {
    const refused = this.#rows.map((row, g) =>
      g > 0 && row.some(isRefusal) ? [...row.keys()] : [],
    )
    return this.takeBack(refused, true)
  }

  /** The marks that the call has set, which are no longer its own. */
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
    return this.#rows.map((row) => row.map((answer) => answer ?? 'not-run'))
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

  /** What was given back meanwhile, or only looked at, was not run. */
  silentAnswers(): Groups<Answer> {
    return this.#rows.map((row, g) =>
      row.map((answer, i) => {
        const amount = this.#groups[g]?.[i]?.amount ?? 0
        const isTaken = typeof answer !== 'object' || answer.granted > 0 || amount === 0
        return answer === undefined || !(isTaken || isRefusal(answer)) ? 'not-run' : answer
      }),
    )
  }

  private get enforced(): Row {
    return this.#rows[0] ?? []
  }

  /**
   * A refusal that units may have caused which are only held: the wait is as long as a hold. Where
   * another limit refuses the call for ever, waiting so long would not help, and the wait stays.
   */
  private withHold(answer: Answer, i: number, isFinal: boolean): Answer {
    if (!isRefusal(answer) || answer.retryAfterMs === null) return answer
    const mark = this.#marks[i]
    if (mark !== undefined && !isMarked(mark)) return answer
    const holdMs = isFinal ? answer.retryAfterMs : this.#holdMs
    return { ...answer, retryAfterMs: Math.min(answer.retryAfterMs, holdMs), held: true }
  }
}

export function isRefusal(answer: Answer | undefined): answer is Exclude<Answer, string> {
  return typeof answer === 'object' && answer.retryAfterMs !== 0
}

/** A limit that a refused call did not get to. */
function notReached(take: Take | undefined): Answer {
  const remaining = take?.limit.capacity ?? 0
  return { granted: 0, remaining, resetAfterMs: 0, retryAfterMs: 0, delayMs: 0, at: 0 }
}
