/** An operation of the store in Redis. Several are sent as one batch. */
import { type CounterKey, isCount, SluiceError, show, type Take } from '@sluice/core'
import type { Charge, Give, Groups } from '../../store.js'

export type StoreOp =
  | {
      readonly verb: 'take' | 'peek'
      readonly groups: Groups<Take>
      /** Whether every outcome includes the counter's state. */
      readonly states: boolean
    }
  | { readonly verb: 'give'; readonly give: Give }
  | { readonly verb: 'charge'; readonly charge: Charge }
  | { readonly verb: 'reset'; readonly key: CounterKey }

/** Checks the numbers of a take; an amount below 0 gives back. */
export function requireTake({ amount, atLeast, at, holder }: Take): void {
  if (!(Number.isSafeInteger(amount) && amount < 0)) requireAmount(amount)
  if (atLeast !== undefined) requireCount('atLeast', atLeast)
  if (at !== undefined) requireCount('at', at)
  if (holder !== undefined) requireCount('holder', holder)
}

export function requireAmount(amount: number): void {
  if (isCount(amount)) return
  throw new SluiceError(
    'CALL_COST_INVALID',
    `amount: found ${show(amount)}; accepted: a whole number from 0 to 2^53 - 1`,
  )
}

export function requireCount(name: string, value: number): void {
  if (isCount(value)) return
  throw new SluiceError(
    'OPTION_INVALID',
    `${name}: found ${show(value)}; accepted: a whole number from 0 to 2^53 - 1`,
  )
}
