/**
 * One call of the store that waits for its answer: which parts it has, what they said, and what is
 * told to whom when the deadline passes before all have answered.
 */
import type { Take } from '@sluice/core'
import type { Answer, Groups, Silence } from '../store.js'
import type { Expiring } from './deadlines.js'
import { costOfTakes } from './op-cost.js'
import { countTakesOf, Part, type PartAnswer, partitionOf, type PartOwner, slice } from './part.js'

/**
 * What is asked of the store. Made by a class, as is all that lives while a call waits: V8 would
 * take a literal that many waiting calls have for one that lives long, and put it among the old.
 */
export class Asking {
  readonly verb: 'take' | 'peek'
  readonly groups: Groups<Take>
  readonly states: boolean

  constructor(verb: 'take' | 'peek', groups: Groups<Take>, states: boolean) {
    this.verb = verb
    this.groups = groups
    this.states = states
  }
}

export interface TakeCallOptions {
  readonly asking: Asking
  readonly deadlineAtMs: number
  readonly onLate: ((answers: Groups<Answer>) => void) | undefined
  readonly resolve: (answers: Groups<Answer>) => void
  /** Makes one answer of those to a call that was split up on its way. @default as they are */
  readonly takenApart?:
    | ((groups: Groups<Take>, answers: Groups<Answer>) => Groups<Answer>)
    | undefined
}

export class TakeCall implements PartOwner, Expiring {
  readonly deadlineAtMs: number
  isAnswered = false
  readonly #asking: Asking
  readonly #options: TakeCallOptions
  #parts: readonly Part[] | undefined
  /** The only part, if there is one. */
  #only: Part | undefined
  #open = 0
  #isExpiring = false
  /** The answer of the only part. */
  #whole: PartAnswer
  /** The answers of several parts, in the places of their takes. */
  #answers: (Answer | undefined)[][] | undefined

  constructor(options: TakeCallOptions) {
    this.#options = options
    this.#asking = options.asking
    this.deadlineAtMs = options.deadlineAtMs
  }

  /** The call as one part, whatever its partitions. */
  asWhole(partition: number): Part {
    const { groups, states } = this.#asking
    const part = new Part(this, this.#asking, partition, costOfTakes(groups, states))
    this.#only = part
    this.#open = 1
    return part
  }

  /** The call as a part for each partition, or for each counter of those that `isSingle`. */
  asParts(isSingle: (partition: number) => boolean): readonly Part[] {
    const { verb, groups, states } = this.#asking
    const slices = slice(groups, ({ hi, lo, partition }) =>
      isSingle(partition) ? `${hi}.${lo}` : partition,
    )
    const parts = slices.map((cut) => {
      const asking = new Asking(verb, cut.groups, states)
      const cost = costOfTakes(cut.groups, states)
      return new Part(this, asking, cut.partition, cost, cut.places)
    })
    this.#parts = parts
    this.#open = parts.length
    this.useAnswers()
    return parts
  }

  split(part: Part): readonly Part[] {
    const { verb, groups, states } = this.#asking
    const isCut = countTakesOf(part.op) <= 1 && partitionOf(part.op) === part.partition
    if (isCut) return [part]
    const wanted = groups.map((takes, g) => {
      const places = part.places?.[g]
      return places === undefined ? takes.map((_, i) => i) : places
    })
    const parts = slice(
      groups.map((takes, g) => takes.filter((_, i) => wanted[g]?.includes(i) === true)),
      ({ hi, lo }) => `${hi}.${lo}`,
    ).map((cut) => {
      const places = cut.places.map((inPart, g) => inPart.map((i) => wanted[g]?.[i] ?? 0))
      const op = new Asking(verb, cut.groups, states)
      const single = new Part(this, op, cut.partition, costOfTakes(cut.groups, states), places)
      single.resends = part.resends
      return single
    })
    this.useAnswers()
    part.stage = 'settled'
    const others = this.#parts?.filter((other) => other !== part) ?? []
    this.#only = undefined
    this.#parts = [...others, ...parts]
    this.#open += parts.length - 1
    return parts
  }

  settle(part: Part, answer: PartAnswer): void {
    this.#open -= 1
    if (this.#answers === undefined) this.#whole = answer
    else this.place(part, answer)
    if (this.#open > 0) return
    if (!this.isAnswered) this.answer()
    else if (!this.#isExpiring) this.#options.onLate?.(this.told())
  }

  expire(): void {
    if (this.isAnswered) return
    this.isAnswered = true
    this.#isExpiring = true
    this.#only?.expire()
    for (const part of this.#parts ?? []) part.expire()
    this.#isExpiring = false
    this.#options.resolve(this.told())
  }

  private useAnswers(): void {
    this.#answers ??= this.#asking.groups.map((takes) => takes.map(() => undefined))
  }

  private place(part: Part, answer: PartAnswer): void {
    const silent = typeof answer === 'string' ? answer : undefined
    this.#asking.groups.forEach((takes, g) => {
      const places = part.places?.[g] ?? takes.map((_, i) => i)
      places.forEach((place, i) => {
        const row = this.#answers?.[g]
        if (row === undefined) return
        row[place] = silent ?? (answer as Groups<Answer> | undefined)?.[g]?.[i] ?? 'unknown'
      })
    })
  }

  private answer(): void {
    this.isAnswered = true
    const { verb, groups } = this.#asking
    const { resolve, takenApart } = this.#options
    const isApart = verb === 'take' && this.#answers !== undefined
    const answers = this.told()
    resolve(isApart && takenApart !== undefined ? takenApart(groups, answers) : answers)
  }

  /** What is known now; a part that has not answered is of unknown fate. */
  private told(): Groups<Answer> {
    if (this.#answers !== undefined) {
      return this.#answers.map((row) => row.map((answer) => answer ?? 'unknown'))
    }
    const whole = this.#whole
    if (whole !== undefined && typeof whole !== 'string') return whole
    const silence: Silence = whole ?? 'unknown'
    return this.#asking.groups.map((takes) => takes.map(() => silence))
  }
}
