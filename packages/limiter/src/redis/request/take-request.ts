/**
 * One take or peek that waits for its answer. Splits it into operations, collects their answers,
 * and answers with what is known if the deadline passes first.
 */
import type { Take } from '@sluice/core'
import type { Answer, Groups, Silence } from '../../store.js'
import type { Expirable } from './deadlines.js'
import { costOfTakes } from './op-cost.js'
import {
  countTakesOf,
  PartitionOp,
  type OpAnswer,
  partitionOf,
  type OpOwner,
  type ShardOf,
  eachAlone,
  sliceTakes,
} from './partition-op.js'

/**
 * The groups of one take or peek. A class, not an object literal: V8 pretenures literals that
 * survive a scavenge, and these live while a call waits.
 */
export class TakeOp {
  readonly verb: 'take' | 'peek'
  readonly groups: Groups<Take>
  readonly states: boolean

  constructor(verb: 'take' | 'peek', groups: Groups<Take>, states: boolean) {
    this.verb = verb
    this.groups = groups
    this.states = states
  }
}

export interface TakeRequestOptions {
  readonly takeOp: TakeOp
  readonly deadlineAtMs: number
  readonly onLate: ((answers: Groups<Answer>) => void) | undefined
  readonly resolve: (answers: Groups<Answer>) => void
  /** Combines the answers to a call that had to be split on its way. @default unchanged */
  readonly combineAnswers?:
    | ((groups: Groups<Take>, answers: Groups<Answer>) => Groups<Answer>)
    | undefined
}

export class TakeRequest implements OpOwner, Expirable {
  readonly deadlineAtMs: number
  isAnswered = false
  readonly #takeOp: TakeOp
  readonly #onLate: TakeRequestOptions['onLate']
  readonly #resolve: TakeRequestOptions['resolve']
  readonly #combineAnswers: TakeRequestOptions['combineAnswers']
  #ops: readonly PartitionOp[] | undefined
  /** The operation, if there is only one. */
  #onlyOp: PartitionOp | undefined
  #openOps = 0
  #isExpiring = false
  /** The answer of the only operation. */
  #onlyAnswer: OpAnswer
  /** The answers of several operations, by group and take. */
  #answers: (Answer | undefined)[][] | undefined

  constructor(options: TakeRequestOptions) {
    this.#takeOp = options.takeOp
    this.deadlineAtMs = options.deadlineAtMs
    this.#onLate = options.onLate
    this.#resolve = options.resolve
    this.#combineAnswers = options.combineAnswers
  }

  /** Returns the call as one operation, whatever its partitions. */
  asOneOp(partition: number): PartitionOp {
    const { groups, states } = this.#takeOp
    const op = new PartitionOp(this, this.#takeOp, partition, costOfTakes(groups, states))
    this.#onlyOp = op
    this.#openOps = 1
    return op
  }

  /** Returns one operation per shard, or one per counter in partitions for which `isSingle`. */
  asPartitionOps(
    isSingle: (partition: number) => boolean,
    shardOf: ShardOf = eachAlone,
  ): readonly PartitionOp[] {
    const { verb, groups, states } = this.#takeOp
    const slices = sliceTakes(groups, ({ hi, lo, partition }) =>
      isSingle(partition) ? `${hi}.${lo}` : shardOf(partition),
    )
    const ops = slices.map((cut) => {
      const takeOp = new TakeOp(verb, cut.groups, states)
      const cost = costOfTakes(cut.groups, states)
      return new PartitionOp(this, takeOp, cut.partition, cost, cut.places)
    })
    this.#ops = ops
    this.#openOps = ops.length
    this.useAnswers()
    return ops
  }

  opsPerCounter(op: PartitionOp): readonly PartitionOp[] {
    const { verb, groups, states } = this.#takeOp
    const isCut = countTakesOf(op.storeOp) <= 1 && partitionOf(op.storeOp) === op.partition
    if (isCut) return [op]
    const wanted = groups.map((takes, g) => {
      const places = op.places?.[g]
      return places === undefined ? takes.map((_, i) => i) : places
    })
    const ops = sliceTakes(
      groups.map((takes, g) => takes.filter((_, i) => wanted[g]?.includes(i) === true)),
      ({ hi, lo }) => `${hi}.${lo}`,
    ).map((cut) => {
      const places = cut.places.map((inSlice, g) => inSlice.map((i) => wanted[g]?.[i] ?? 0))
      const takeOp = new TakeOp(verb, cut.groups, states)
      const single = new PartitionOp(
        this,
        takeOp,
        cut.partition,
        costOfTakes(cut.groups, states),
        places,
      )
      single.resends = op.resends
      return single
    })
    this.useAnswers()
    op.stage = 'settled'
    const others = this.#ops?.filter((other) => other !== op) ?? []
    this.#onlyOp = undefined
    this.#ops = [...others, ...ops]
    this.#openOps += ops.length - 1
    return ops
  }

  settle(op: PartitionOp, answer: OpAnswer): void {
    this.#openOps -= 1
    if (this.#answers === undefined) this.#onlyAnswer = answer
    else this.recordAnswer(op, answer)
    if (this.#openOps > 0) return
    if (!this.isAnswered) this.answer()
    else if (!this.#isExpiring) this.#onLate?.(this.knownAnswers())
  }

  expire(): void {
    if (this.isAnswered) return
    this.isAnswered = true
    this.#isExpiring = true
    this.#onlyOp?.expire()
    for (const op of this.#ops ?? []) op.expire()
    this.#isExpiring = false
    this.#resolve(this.knownAnswers())
  }

  private useAnswers(): void {
    this.#answers ??= this.#takeOp.groups.map((takes) => takes.map(() => undefined))
  }

  private recordAnswer(op: PartitionOp, answer: OpAnswer): void {
    const silent = typeof answer === 'string' ? answer : undefined
    this.#takeOp.groups.forEach((takes, g) => {
      const places = op.places?.[g] ?? takes.map((_, i) => i)
      places.forEach((place, i) => {
        const row = this.#answers?.[g]
        if (row === undefined) return
        row[place] = silent ?? (answer as Groups<Answer> | undefined)?.[g]?.[i] ?? 'unknown'
      })
    })
  }

  private answer(): void {
    this.isAnswered = true
    const { verb, groups } = this.#takeOp
    const isSplitUp = verb === 'take' && this.#answers !== undefined
    const answers = this.knownAnswers()
    const combine = isSplitUp ? this.#combineAnswers : undefined
    this.#resolve(combine === undefined ? answers : combine(groups, answers))
  }

  /** The answers so far; `unknown` for an operation that has not answered. */
  private knownAnswers(): Groups<Answer> {
    if (this.#answers !== undefined) {
      return this.#answers.map((row) => row.map((answer) => answer ?? 'unknown'))
    }
    const whole = this.#onlyAnswer
    if (whole !== undefined && typeof whole !== 'string') return whole
    const silence: Silence = whole ?? 'unknown'
    return this.#takeOp.groups.map((takes) => takes.map(() => silence))
  }
}
