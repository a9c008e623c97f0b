/** Counts what became of the reservations of this process, and the units that were settled. */
import type { SettledCost, Settlement, SettlementReason } from './reservation-types.js'

/**
 * What a verb, or the expiry, did with a reservation. `made` and `extended` may be `repeated` with
 * their idempotency key, which changes nothing. `refunded`: it expired, and what rules with
 * `onExpiry: refund` and limits of calls in flight counted of it was given back. The others are
 * the reasons of settlements.
 */
export type ReservationFate =
  | 'made'
  | 'repeated'
  | 'extended'
  | 'extension-refused'
  | 'refunded'
  | Exclude<SettlementReason, 'refused'>

/** Since the start of this process. */
export interface ReservationStats {
  readonly fates: Readonly<Record<ReservationFate, number>>
  /** The units of reservations that ended, by cost attribute; `cost` for the cost of the call. */
  readonly units: ReadonlyMap<string, SettledCost>
}

/** Cost attributes of earlier rules keep their units; those of further ones are under `other`. */
const COSTS_MAX = 64
const OTHER = 'other'

export class ReservationCounts implements ReservationStats {
  readonly fates: Record<ReservationFate, number> = {
    made: 0,
    repeated: 0,
    extended: 0,
    'extension-refused': 0,
    settled: 0,
    cancelled: 0,
    'already-settled': 0,
    expired: 0,
    refunded: 0,
    posture: 0,
  }
  readonly #units = new Map<string, { charged: number; givenBack: number; owed: number }>()

  get units(): ReadonlyMap<string, SettledCost> {
    return this.#units
  }

  count(fate: ReservationFate): void {
    this.fates[fate] += 1
  }

  /** Of a reservation that expired, only what this node gave back is counted. */
  countSettlement(settlement: Settlement, isExpired: boolean): void {
    const { settled, reason, costs } = settlement
    if (!isExpired && reason !== 'refused') this.count(reason)
    if (!settled) return
    if (isExpired) this.count('refunded')
    for (const name of Object.keys(costs)) this.addUnits(name, costs[name])
  }

  private addUnits(name: string, cost: SettledCost | undefined): void {
    if (cost === undefined) return
    const units = this.#units.get(name)
    if (units !== undefined) {
      units.charged += cost.charged
      units.givenBack += cost.givenBack
      units.owed += cost.owed
      return
    }
    if (this.#units.size >= COSTS_MAX && name !== OTHER) return this.addUnits(OTHER, cost)
    this.#units.set(name, { ...cost })
  }
}
