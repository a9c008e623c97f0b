/** Records which callers are blocked, from the operations of the store. */
import { type Block, isBlock, passes, type Take } from '@sluice/core'
import type { Answer, Groups } from '@sluice/limiter'
import { adoptBlock, beginBlock, liftBlock, newBlock, type SimBlock } from './sim-block.js'
import { type Counter, nameOf } from './sim-counter.js'
import type { Execution, SimServer } from './sim-server.js'

/** A block that a take met, and the answer of the store for it. */
export interface BlockMeeting {
  readonly block: SimBlock
  /** The take of the limit that it is beside. */
  readonly limitTake: Take
  /** Whether a block refuses it: it costs something, or is a gate. */
  readonly isRefusable: boolean
  readonly retryAfterMs: number | null
  /** Whether this take should have begun it. */
  readonly begins: boolean
}

export class BlockTruth {
  readonly #server: SimServer
  readonly #blocks = new Map<string, SimBlock>()
  /** The blocks that the last operation met. */
  meetings: readonly BlockMeeting[] = []

  constructor(server: SimServer) {
    this.#server = server
  }

  get all(): Iterable<SimBlock> {
    return this.#blocks.values()
  }

  get(name: string): SimBlock | undefined {
    return this.#blocks.get(name)
  }

  block({ key, limit }: Take, counter: Counter): SimBlock {
    const known = this.#blocks.get(nameOf(key))
    if (known !== undefined) return known
    const block = newBlock(key, limit, counter)
    this.#blocks.set(block.name, block)
    return block
  }

  recordExecution({ request: { operation }, reply, storeUs, trueUs }: Execution): void {
    this.meetings = []
    if (reply.late) return
    if (operation.verb === 'reset') {
      const block = this.#blocks.get(nameOf(operation.key))
      if (block !== undefined) liftBlock(block, trueUs)
    } else if (operation.verb === 'take' && reply.answers !== undefined) {
      this.meetings = this.meet(operation.groups, reply.answers, { storeUs, trueUs })
    }
  }

  /** A replica may lack the last blocks and resets; another clock ends blocks at other times. */
  recordDisruption(): void {
    for (const block of this.#blocks.values()) block.isUnsure = true
  }

  private meet(
    groups: Groups<Take>,
    answers: Groups<Answer>,
    at: Pick<Execution, 'storeUs' | 'trueUs'>,
  ): readonly BlockMeeting[] {
    const isOpen = passes((answers[0] ?? []).flatMap((each) => (isOutcome(each) ? each : [])))
    return groups.flatMap((takes, g) =>
      takes.flatMap((take, i) => {
        const block = isBlock(take.limit) ? this.#blocks.get(nameOf(take.key)) : undefined
        const limitTake = takes[i - 1]
        const [beside, answer] = [answers[g]?.[i - 1], answers[g]?.[i]]
        if (block === undefined || limitTake === undefined) return []
        if (!isOutcome(beside) || !isOutcome(answer)) return []
        const { retryAfterMs } = answer
        // Neither a call without a cost nor a peek begins a block or moves one of another clock.
        const mayWrite = take.amount > 0 && (g === 0 || isOpen)
        if (block.isUnsure) {
          this.adopt(block, take)
          block.isUnsure = !mayWrite
          return []
        }
        const isRefused = mayWrite && (beside.retryAfterMs ?? 0) > 0
        const begins = isRefused && beginBlock(block, at.storeUs, at.trueUs)
        return { block, limitTake, isRefusable: take.amount > 0, retryAfterMs, begins }
      }),
    )
  }

  private adopt(block: SimBlock, take: Take): void {
    const [[peeked] = []] = this.#server.counters.sync.peek([[take]])
    adoptBlock(block, peeked?.state as Block | undefined)
  }
}

function isOutcome(answer: Answer | undefined): answer is Exclude<Answer, string> {
  return answer !== undefined && typeof answer !== 'string'
}
