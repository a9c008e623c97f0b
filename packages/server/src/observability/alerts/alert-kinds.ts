/** How the server treats each alert. Names and severities are defined in @sluice/api. */
import { ALERT_NAMES, ALERT_SEVERITIES, type AlertName } from '@sluice/api'

export { ALERT_NAMES, type AlertName } from '@sluice/api'

interface AlertKind {
  /** `page` needs action at once; `ticket` can wait for working hours. */
  readonly severity: 'page' | 'ticket'
  /** A finding within this time after the last one continues the alert: flapping notifies once. */
  readonly holdMs: number
  /** Explains other alerts, and is therefore listed before them. */
  readonly isCause: boolean
}

const HOLD_MS = 10_000
const LONGER_HOLDS_MS: Partial<Record<AlertName, number>> = { 'store-evictions': 60_000 }
const CAUSES: readonly AlertName[] = ['breaker-open', 'store-refused']

const kindOf = (name: AlertName): AlertKind => ({
  severity: ALERT_SEVERITIES[name],
  holdMs: LONGER_HOLDS_MS[name] ?? HOLD_MS,
  isCause: CAUSES.includes(name),
})

export const ALERT_KINDS = Object.fromEntries(
  ALERT_NAMES.map((name) => [name, kindOf(name)]),
) as Readonly<Record<AlertName, AlertKind>>

export function isAlertName(value: unknown): value is AlertName {
  return typeof value === 'string' && Object.hasOwn(ALERT_SEVERITIES, value)
}
