/** A Cluster of counters in memory, whose scripts and give-backs run when the test says so. */
import type { Take } from '@sluice/core'
import { memoryStore } from '../../memory/memory-store.js'
import type { Answer, Give, Groups } from '../../store.js'
import { manualClock } from '../../testing/index.js'
import { ClusterTake, type ClusterTakeDeps } from './cluster-take.js'
import { LastingMarks } from './hold-marks.js'
import { commonPartition, eachAlone } from './partition-op.js'
import type { GiveBack } from './slot-answers.js'
import type { TakeRequest } from './take-request.js'

export interface SlotCall {
  readonly call: ClusterTake
  answers: Groups<Answer> | undefined
  late: Groups<Answer> | undefined
}

export class Slots {
  readonly clock = manualClock()
  readonly store = memoryStore({ clock: this.clock })
  /** The messages in flight; each entry runs and replies when it is called. */
  readonly underWay: (() => void)[] = []
  /** Whether unanswered calls are refused. */
  refusesSilence = false
  nowMs = 0
  attempts = 0
  heldRefusals = 0

  readonly #deps: ClusterTakeDeps = {
    nowMs: () => this.nowMs,
    isSingle: () => false,
    shardOf: eachAlone,
    dispatch: (attempt, groups) => this.dispatch(attempt, groups),
    undo: (gives) => this.give(gives),
    unmark: (gives) => void this.give(gives),
    lastingMarks: new LastingMarks(),
    onHeldRefusal: () => {
      this.heldRefusals += 1
    },
  }

  start(groups: Groups<Take>, deadlineMs = 1000): SlotCall {
    const options = {
      groups,
      states: false,
      deadlineMs,
      deadlineAtMs: this.nowMs + deadlineMs,
      onLate: (late: Groups<Answer>) => {
        slotCall.late = late
        this.giveBack(groups, late, slotCall.answers)
      },
      resolve: (answers: Groups<Answer>) => {
        slotCall.answers = answers
        if (answers.flat().some((answer) => typeof answer === 'string')) {
          queueMicrotask(() => this.giveBack(groups, answers, undefined))
        }
      },
    }
    const slotCall: SlotCall = {
      call: new ClusterTake(this.#deps, options),
      answers: undefined,
      late: undefined,
    }
    slotCall.call.start()
    return slotCall
  }

  /** Runs the n-th message in flight. */
  async run(n = 0): Promise<void> {
    const [step] = this.underWay.splice(n, 1)
    step?.()
    for (let turn = 0; turn < 20; turn++) await Promise.resolve()
  }

  async runAll(): Promise<void> {
    while (this.underWay.length > 0) await this.run()
  }

  remaining(take: Take): number {
    return this.store.sync.peek([[{ ...take, amount: 0 }]])[0]?.[0]?.remaining ?? Number.NaN
  }

  /** The limiter refuses unanswered calls, and gives back their units. */
  private giveBack(
    groups: Groups<Take>,
    answers: Groups<Answer>,
    before: Groups<Answer> | undefined,
  ): void {
    if (!this.refusesSilence) return
    const gives: Give[] = []
    for (const [g, takes] of groups.entries()) {
      for (const [i, { key, limit }] of takes.entries()) {
        const answer = answers[g]?.[i]
        const isNew = before === undefined || before[g]?.[i] === 'unknown'
        if (!isNew || typeof answer !== 'object' || answer.granted === 0) continue
        gives.push({ key, limit, amount: answer.granted, at: answer.at, undone: true })
      }
    }
    void this.give(gives)
  }

  private dispatch(attempt: TakeRequest, groups: Groups<Take>): void {
    this.attempts += 1
    const partition = commonPartition(groups)
    const ops =
      partition === undefined ? attempt.asPartitionOps(() => false) : [attempt.asOneOp(partition)]
    for (const partitionOp of ops) {
      partitionOp.stage = 'sent'
      this.underWay.push(() => {
        const { storeOp } = partitionOp
        if (storeOp.verb === 'take') partitionOp.settle(this.store.sync.take(storeOp.groups))
        if (storeOp.verb === 'peek') partitionOp.settle(this.store.sync.peek(storeOp.groups))
      })
    }
  }

  private give(gives: readonly GiveBack[]): Promise<void> {
    const partitions = new Map<number, GiveBack[]>()
    for (const give of gives) {
      const together = partitions.get(give.key.partition)
      if (together === undefined) partitions.set(give.key.partition, [give])
      else together.push(give)
    }
    const done = [...partitions.values()].map(
      (together) =>
        new Promise<void>((resolve) => {
          this.underWay.push(() => {
            for (const { penalty, ...give } of together) {
              const { key, limit, at = 0 } = give
              this.store.sync.give(give)
              if (penalty === undefined) continue
              this.store.sync.charge({ key, limit, at, ...penalty })
            }
            resolve()
          })
        }),
    )
    return Promise.all(done).then(() => {})
  }
}
