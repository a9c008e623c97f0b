/** Reports what became of reservations. Labels are fixed words, and cost attributes of rules. */
import type { ReservationStats } from '@sluice/limiter'
import type { Registry } from './registry.js'

/** `stats` are those of the limiter: all entry points and the expiry are counted there, once. */
export function registerReservationMetrics(
  registry: Registry,
  stats: () => ReservationStats,
): void {
  registry.total(
    'sluice_reservations_total',
    'Reservations by what reserve, extend, settle, cancel or their expiry did with them.',
    () => Object.entries(stats().fates).map(([fate, count]) => [[labelOf(fate)], count]),
    { labelNames: ['fate'] },
  )
  registry.total(
    'sluice_reservation_units_total',
    'Units of reservations that ended, by cost attribute: charged, given back, and owed beyond the limit.',
    () =>
      [...stats().units].flatMap(([cost, { charged, givenBack, owed }]) => [
        [[cost, 'charged'], charged],
        [[cost, 'given_back'], givenBack],
        [[cost, 'owed'], owed],
      ]),
    { labelNames: ['cost', 'fate'] },
  )
}

/** Metrics have underscores. */
function labelOf(fate: string): string {
  return fate.replaceAll('-', '_')
}
