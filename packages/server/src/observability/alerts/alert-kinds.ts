/** What each alert asks of people, and how long it must be quiet before it is over. */
import type { Alert, AlertName } from './alert.js'

interface AlertKind {
  readonly severity: Alert['severity']
  /** What comes back within this time is the same alert: flapping wakes nobody twice. */
  readonly holdMs: number
}

const HOLD_MS = 10_000

const PAGE: AlertKind = { severity: 'page', holdMs: HOLD_MS }
const TICKET: AlertKind = { severity: 'ticket', holdMs: HOLD_MS }

export const ALERT_KINDS: Readonly<Record<AlertName, AlertKind>> = {
  'breaker-open': PAGE,
  degraded: PAGE,
  availability: PAGE,
  'store-refused': PAGE,
  'fleet-unknown': TICKET,
  'store-slow': TICKET,
  'clock-offset': TICKET,
  'clock-spread': TICKET,
  'store-memory': PAGE,
  'store-evictions': { severity: 'page', holdMs: 60_000 },
  'rules-stale': PAGE,
  'caller-at-zero': TICKET,
  'refusals-unusual': TICKET,
  'callers-unusual': TICKET,
  // Callers whose calls were admitted get errors now, and nothing before the gateway may see it.
  'upstream-failing': PAGE,
}
