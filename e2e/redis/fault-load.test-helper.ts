/** Calls at an even pace, whatever becomes of them, over all nodes, kinds and callers. */
import type { Ledger } from './fault-ledger.test-helper.js'
import type { DecisionLog } from './fault-log.test-helper.js'
import { callOf, isRight, KINDS, NODES, type Nodes } from './fault-nodes.test-helper.js'

const TICK_MS = 5
/** After a stall of this process, what is overdue is not asked all at once. */
const AT_ONCE_MAX = 100
const FREE_USERS = 100
/** Tight callers come anew all the time: whenever a fault comes, some are just being used up. */
const TIGHT_USERS = 3
const TIGHT_LIFE_MS = 500
/** Every so many-th call is one of a tight caller, the others of a free one. */
const TIGHT_EVERY = 3
const SETTLE_MS_MAX = 5000

const FREE = KINDS.flatMap(({ isTight }, kind) => (isTight ? [] : [kind]))
const TIGHT = KINDS.flatMap(({ isTight }, kind) => (isTight ? [kind] : []))

export interface LoadParts {
  readonly nodes: Nodes
  readonly log: DecisionLog
  readonly ledger: Ledger
  readonly perSecond: number
}

export class Load {
  readonly #parts: LoadParts
  readonly #startedMs = performance.now()
  readonly #interval: NodeJS.Timeout
  #asked = 0
  #skipped = 0

  constructor(parts: LoadParts) {
    this.#parts = parts
    this.#interval = setInterval(() => this.tick(), TICK_MS)
  }

  /** No more calls; settles when all have their answers, or should have had them long ago. */
  async stop(): Promise<void> {
    clearInterval(this.#interval)
    const until = performance.now() + SETTLE_MS_MAX
    while (this.#parts.log.open > 0 && performance.now() < until) {
      await new Promise((resolve) => {
        setTimeout(resolve, TICK_MS)
      })
    }
  }

  private tick(): void {
    const due = ((performance.now() - this.#startedMs) * this.#parts.perSecond) / 1000
    const overdue = Math.floor(due) - this.#asked - this.#skipped
    this.#skipped += Math.max(0, overdue - AT_ONCE_MAX)
    for (let i = 0; i < Math.min(overdue, AT_ONCE_MAX); i++) this.ask()
  }

  private ask(): void {
    const { log, ledger, nodes } = this.#parts
    if (log.isFull) return
    const turn = this.#asked
    this.#asked += 1
    const isTight = turn % TIGHT_EVERY === 0
    const kinds = isTight ? TIGHT : FREE
    const index = kinds[Math.floor(turn / TIGHT_EVERY) % kinds.length] ?? 0
    const kind = KINDS[index]
    if (kind === undefined) return
    // Of every caller and kind some calls go to every node: no two of these go round together.
    const user = isTight ? this.tightUser(turn) : (turn * 7) % (FREE_USERS + 1)
    const round = TIGHT_EVERY * TIGHT.length * TIGHT_USERS
    const node = (turn + Math.floor(turn / NODES) + Math.floor(turn / round)) % NODES
    const row = log.ask({ node, kind: index, user })
    ledger.asking(row)
    nodes.limiters[node]?.check(callOf(kind, user)).then(
      (decision) => log.answer(row, decision, isRight(kind, decision)),
      () => log.reject(row),
    )
    ledger.asking(-1)
  }

  private tightUser(turn: number): number {
    const life = Math.floor((performance.now() - this.#startedMs) / TIGHT_LIFE_MS)
    return life * TIGHT_USERS + (Math.floor(turn / (TIGHT_EVERY * TIGHT.length)) % TIGHT_USERS)
  }
}
