/** Fixed windows that follow a calendar, in runs that meet the end of such a window. */
import { type Calendar, calendarWindowAt } from '@sluice/core'
import { mapLimits, mapRules } from './generate-rules.js'
import type { Random } from './random.js'
import type { LimitText, Scenario } from './scenario.js'

const UNITS = ['day', 'day', 'week', 'month'] as const
/** In Santiago clocks change at midnight, so some days begin an hour later. */
const ZONES = ['UTC', 'Europe/Berlin', 'America/Santiago', 'Asia/Kathmandu'] as const
const FOLLOWING = 0.6
/** A run begins in the year after its first time, which has every change of the clocks once. */
const YEAR_US = 365 * 86_400_000_000

export function withCalendar(random: Random, scenario: Scenario): Scenario {
  const calendar: Calendar = { unit: random.pick(UNITS), zone: random.pick(ZONES) }
  const { unit: window, zone } = calendar
  const following = new Set(
    scenario.rules.flatMap(({ id }) => (random.chance(FOLLOWING) ? id : [])),
  )
  const change = (limit: LimitText) => (canFollow(limit) ? { ...limit, window, zone } : limit)
  const { settings } = scenario
  const { end } = calendarWindowAt(calendar, settings.startUs + random.int(0, YEAR_US))
  const beforeUs = random.int(0, settings.lengthMs) * 1000 + settings.storeAheadMs * 1000
  // The same for every version of a rule and its tiers, whose counters continue.
  return mapRules({ ...scenario, settings: { ...settings, startUs: end - beforeUs } }, (rule) =>
    following.has(rule.id) ? mapLimits(rule, change) : rule,
  )
}

function canFollow({ algorithm, start }: LimitText): boolean {
  return algorithm === 'fixed-window' && start === undefined
}
