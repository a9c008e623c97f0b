/** Every alert: its name, how urgent it is, and how long it stays active after its last finding. */

interface AlertKind {
  /** `page` wakes somebody; `ticket` can wait for working hours. */
  readonly severity: 'page' | 'ticket'
  /** A finding within this time after the last one continues the alert: flapping notifies once. */
  readonly holdMs: number
  /** Explains other alerts, and is therefore listed before them. @default false */
  readonly isCause?: boolean
}

const HOLD_MS = 10_000

const PAGE: AlertKind = { severity: 'page', holdMs: HOLD_MS }
const TICKET: AlertKind = { severity: 'ticket', holdMs: HOLD_MS }

const KINDS = {
  'breaker-open': { ...PAGE, isCause: true },
  degraded: PAGE,
  availability: PAGE,
  'store-refused': { ...PAGE, isCause: true },
  'fleet-unknown': TICKET,
  'store-slow': TICKET,
  'clock-offset': TICKET,
  'clock-spread': TICKET,
  'store-memory': PAGE,
  'store-evictions': { ...PAGE, holdMs: 60_000 },
  'rules-stale': PAGE,
  'caller-exhausted': TICKET,
  'refusals-anomaly': TICKET,
  'callers-anomaly': TICKET,
  // Callers whose calls were admitted get errors, and nothing in front of the gateway may notice.
  'upstream-failing': PAGE,
} satisfies Record<string, AlertKind>

export type AlertName = keyof typeof KINDS

export const ALERT_KINDS: Readonly<Record<AlertName, AlertKind>> = KINDS

/** In the order in which messages and metrics list them. */
export const ALERT_NAMES: readonly AlertName[] = Object.keys(KINDS).filter(isAlertName)

export function isAlertName(value: unknown): value is AlertName {
  return typeof value === 'string' && Object.hasOwn(KINDS, value)
}
