/**
 * A property that must hold whatever happens. Its functions return a description of the violation,
 * or undefined.
 */
import type { CounterKey } from '@sluice/core'
import type { DecisionRecord } from '../call-log.js'
import type { Execution } from '../sim-server.js'
import type { CallerReset, Refund, GroundTruth } from '../ground-truth.js'
import type { PlaceCall } from '../place-truth.js'
import type { ReserveRecord, SettlementRecord } from '../reservation-truth.js'

export interface Invariant {
  readonly name: string
  /** The store applied an operation. */
  readonly onExecution?: (execution: Execution) => string | undefined
  /** A call was decided; its usage is already in its accounts. */
  readonly onDecision?: (record: DecisionRecord) => string | undefined
  /** A reserve or an extension was decided; after `onDecision`. */
  readonly onReserve?: (record: ReserveRecord) => string | undefined
  /** A node answered a request to settle or cancel. */
  readonly onSettlement?: (record: SettlementRecord) => string | undefined
  /** A call that asked for places was decided; it holds those that it was granted. */
  readonly onPlaces?: (call: PlaceCall) => string | undefined
  /** A receipt is being refunded, or the store gives back a part of a reserve. */
  readonly onRefund?: (refund: Refund) => string | undefined
  /** A node received the answer that the store has reset a counter. */
  readonly onReset?: (node: string, key: CounterKey, nowUs: number) => string | undefined
  /** A reset of a caller succeeded. */
  readonly onCallerReset?: (reset: CallerReset) => string | undefined
  /** After an event and everything that follows from it synchronously. */
  readonly onStep?: (nowUs: number) => string | undefined
  /** Long after the end of traffic and faults, when no trace of them may be left. */
  readonly atEnd?: (nodes: readonly NodeAtEnd[]) => string | undefined
}

/** What a live node still holds at the end. */
export interface NodeAtEnd {
  readonly name: string
  readonly held: number
  readonly counters: number
  readonly reportsWaiting: number
  readonly inFlight: number
}

export type MakeInvariant = (truth: GroundTruth) => Invariant
