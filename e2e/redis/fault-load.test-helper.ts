/** Calls at an even pace, whatever their outcome, over all nodes, kinds and callers. */
import type { Ledger } from './fault-ledger.test-helper.js'
import type { DecisionLog } from './fault-log.test-helper.js'
import { callOf, isRight, KINDS, NODES, type Nodes } from './fault-nodes.test-helper.js'

const TICK_MS = 5
/** After a stall of this process, overdue calls are not sent all at once. */
const AT_ONCE_MAX = 100
const FREE_USERS = 100
/** New tight callers start all the time, so that every fault meets some near their limit. */
const TIGHT_USERS = 3
const TIGHT_LIFE_MS = 500
/** Each n-th call is one of a tight caller, the others of a free one. */
const TIGHT_EVERY = 3
const SETTLE_MS_MAX = 5000

const FREE = KINDS.flatMap(({ isTight }, kind) => (isTight ? [] : [kind]))
const TIGHT = KINDS.flatMap(({ isTight }, kind) => (isTight ? [kind] : []))

export interface LoadOptions {
  readonly nodes: Nodes
  readonly log: DecisionLog
  readonly ledger: Ledger
  readonly perSecond: number
}

export class Load {
  readonly #options: LoadOptions
  readonly #startedMs = performance.now()
  readonly #interval: NodeJS.Timeout
  #sent = 0
  #skipped = 0

  constructor(options: LoadOptions) {
    this.#options = options
    this.#interval = setInterval(() => this.tick(), TICK_MS)
  }

  /** Sends no more calls; resolves when all are answered, or should have been long ago. */
  async stop(): Promise<void> {
    clearInterval(this.#interval)
    const until = performance.now() + SETTLE_MS_MAX
    while (this.#options.log.openCount > 0 && performance.now() < until) {
      await new Promise((resolve) => {
        setTimeout(resolve, TICK_MS)
      })
    }
  }

  private tick(): void {
    const due = ((performance.now() - this.#startedMs) * this.#options.perSecond) / 1000
    const overdue = Math.floor(due) - this.#sent - this.#skipped
    this.#skipped += Math.max(0, overdue - AT_ONCE_MAX)
    for (let i = 0; i < Math.min(overdue, AT_ONCE_MAX); i++) this.send()
  }

  private send(): void {
    const { log, ledger, nodes } = this.#options
    if (log.isFull) return
    const callNumber = this.#sent
    this.#sent += 1
    const isTight = callNumber % TIGHT_EVERY === 0
    const kinds = isTight ? TIGHT : FREE
    const index = kinds[Math.floor(callNumber / TIGHT_EVERY) % kinds.length] ?? 0
    const kind = KINDS[index]
    if (kind === undefined) return
    // Some calls of every caller and kind go to every node, because the three cycles differ.
    const user = isTight ? this.tightUser(callNumber) : (callNumber * 7) % (FREE_USERS + 1)
    const round = TIGHT_EVERY * TIGHT.length * TIGHT_USERS
    const node =
      (callNumber + Math.floor(callNumber / NODES) + Math.floor(callNumber / round)) % NODES
    const row = log.start({ node, kind: index, user })
    ledger.setRow(row)
    nodes.limiters[node]?.check(callOf(kind, user)).then(
      (decision) => log.answer(row, decision, isRight(kind, decision)),
      () => log.reject(row),
    )
    ledger.setRow(-1)
  }

  private tightUser(callNumber: number): number {
    const life = Math.floor((performance.now() - this.#startedMs) / TIGHT_LIFE_MS)
    return (
      life * TIGHT_USERS + (Math.floor(callNumber / (TIGHT_EVERY * TIGHT.length)) % TIGHT_USERS)
    )
  }
}
