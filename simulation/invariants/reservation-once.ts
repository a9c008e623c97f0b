/**
 * A reservation ends once over all nodes, under every fault: the store changes its counters only in
 * the name of a reservation whose mark is free, and takes that mark at the same time. So of all
 * requests to settle or cancel it, and of its expiry, one changes something and says so, and the
 * others say that it had ended. Only a failover that loses the mark lets it end again.
 */
import { endOf } from '../reservation-truth.js'
import type { MakeInvariant } from './invariant.js'

export const reservationOnce: MakeInvariant = (truth) => {
  const ended = new Set<number>()
  return {
    name: 'a reservation ends once',
    onExecution: ({ request }) => {
      const end = truth.reservations.lastEnd
      if (end === undefined) return undefined
      const { reservation, isMarked, changes } = end
      const isChanged = changes.some(({ granted }) => granted !== 0)
      if (isChanged && !isMarked) return `${request.node} changed counters without a mark`
      const isAgain = reservation !== undefined && isMarked && endOf(reservation) !== end
      return isAgain ? `reservation ${reservation.number} ended twice` : undefined
    },
    onSettlement: ({ reservation, settlement, request }) => {
      const { number, ends } = reservation
      const { reason, settled } = settlement
      if (reason === 'already-settled' && !ends.some(({ isMarked }) => isMarked)) {
        return `${request.node} says that reservation ${number} had ended, which it had not`
      }
      // A handle without entries changes nothing, however often it is settled.
      if (!settled || request.known.handle.entries.length === 0) return undefined
      if (ended.has(number) && !ends.some(({ isUndone }) => isUndone)) {
        return `two requests say that they ended reservation ${number}`
      }
      ended.add(number)
      return undefined
    },
  }
}
