/** What must hold whatever happens. Each says what is wrong; undefined: nothing. */
import type { CounterKey } from '@sluice/core'
import type { DecisionRecord } from '../call-log.js'
import type { Execution } from '../sim-server.js'
import type { Refund, GroundTruth } from '../ground-truth.js'

export interface Invariant {
  readonly name: string
  /** The store did something. */
  readonly onExecution?: (execution: Execution) => string | undefined
  /** A call was decided; what it spent is in its accounts already. */
  readonly onDecision?: (record: DecisionRecord) => string | undefined
  /** A receipt is being paid out. */
  readonly onRefund?: (refund: Refund) => string | undefined
  /** A node has heard that the store forgot a counter, as it had asked it to. */
  readonly onReset?: (node: string, key: CounterKey, nowUs: number) => string | undefined
  /** Something happened, and everything that follows from it at once. */
  readonly onStep?: (nowUs: number) => string | undefined
  /** Traffic and faults are over, and so long ago that nothing of them may be left. */
  readonly atEnd?: (nodes: readonly NodeAtEnd[]) => string | undefined
}

/** What a live node still has when everything is over. */
export interface NodeAtEnd {
  readonly name: string
  readonly held: number
  readonly counters: number
  readonly reportsWaiting: number
}

export type MakeInvariant = (truth: GroundTruth) => Invariant
