/** The public types of reservations: take an estimate now, settle what was used later. */
import type { Attributes, Decision } from '@sluice/core'

/**
 * Options of `reserve`.
 *
 * @example
 * const options = { ttl: '5m', idempotencyKey: 'request-8231' }
 */
export interface ReserveOptions {
  /**
   * How long the reservation lasts, as text such as `90s` or in milliseconds: 1s to 1h. A
   * reservation that is not settled by then stays charged. @default 60s
   */
  readonly ttl?: string | number | undefined
  /**
   * Lets a reserve be sent again: the same caller with the same key gets the same reservation, and
   * is charged once. Up to 256 characters. @default none: each reserve is a new one
   */
  readonly idempotencyKey?: string | undefined
  /** Whether the call can be delayed; if not, a needed delay is a refusal. @default true */
  readonly canWait?: boolean | undefined
  /**
   * Whether the reservation ends when its call does. Others take no places of limits of
   * concurrency, which they would keep until they expire. @default true
   */
  readonly inFlight?: boolean | undefined
}

/** Options of `extend`. */
export interface ExtendOptions {
  /**
   * Lets an extension be sent again: from the same handle with the same key it gets the same
   * reservation, and is charged once. Up to 256 characters. @default none
   */
  readonly idempotencyKey?: string | undefined
}

/**
 * What a call used in the end: a number where the rules have one cost attribute (or none), else one
 * for each. A cost that is left out keeps its reserve.
 */
export type ActualCosts = number | Readonly<Record<string, number>>

/**
 * The decision of a `reserve` or `extend`, and the verbs that end it.
 */
export interface Reservation extends Decision {
  /** The handle: a signed text, good on every node; undefined if nothing was reserved. */
  readonly reservation: string | undefined
  /**
   * The units that are reserved, by cost attribute; `cost` for the cost of the call itself. What
   * `settle` accepts: costs that only `local`, `split` or `node` rules count are not among them.
   */
  reserved(): Readonly<Record<string, number>>
  /** Whether it holds places of limits of concurrency, which are free when it ends. */
  holdsPlaces(): boolean
  /** Charges what the call really used; gives back the rest of the reserve, or overdraws. */
  settle(actual: ActualCosts): Promise<Settlement>
  /** Reserves more of the costs that the attributes name, and lasts as long again. */
  extend(attributes: Attributes, options?: ExtendOptions): Promise<Reservation>
  /** Gives everything back. */
  cancel(): Promise<Settlement>
}

/**
 * What happened to a reservation. `settled` and `cancelled`: this call ended it. `already-settled`
 * and `expired`: it had ended before, and nothing was changed. `posture`: the store did not answer
 * when it was made, so there is nothing to settle. `refused`: it was never made.
 */
export type SettlementReason =
  | 'settled'
  | 'cancelled'
  | 'already-settled'
  | 'expired'
  | 'posture'
  | 'refused'

export interface SettledCost {
  /** Units that the call is charged for; 0 if they were settled by an earlier call. */
  readonly charged: number
  /** Units of the reserve that were given back. */
  readonly givenBack: number
  /** Units beyond what the limits had left; later calls are refused until they are paid. */
  readonly owed: number
}

/** The sums of all costs, and each cost by its name. */
export interface Settlement extends SettledCost {
  /** Whether this call ended the reservation. */
  readonly settled: boolean
  readonly reason: SettlementReason
  /** By cost attribute; `cost` for calls whose rules have none. */
  readonly costs: Readonly<Record<string, SettledCost>>
}
