/** What must not go unseen: begun, gone on, over. */
import { ALERT_KINDS, type AlertName } from './alert-kinds.js'

export type { AlertName } from './alert-kinds.js'

export interface Alert {
  /** `<alert>:<subject>`: the same for the same thing as long as it lasts, on every node. */
  readonly id: string
  readonly alert: AlertName
  /** Whether somebody has to be woken. */
  readonly severity: 'page' | 'ticket'
  /** What it is about: a rule, a store's address, a rule and a caller's hash; empty: the node. */
  readonly subject: string
  /** One sentence for people, without secrets. */
  readonly summary: string
  readonly details: Readonly<Record<string, string | number | readonly string[]>>
  /** An ISO time. */
  readonly since: string
  /** Null: it goes on. */
  readonly resolvedAt: string | null
  readonly node: string
  /** The section of the runbook. */
  readonly runbook: string
}

/**
 * Sorts pages before tickets; within a severity, causes before their consequences, then the alert
 * that has been active for longest.
 */
export function mostUrgentFirst(a: Alert, b: Alert): number {
  if (a.severity !== b.severity) return a.severity === 'page' ? -1 : 1
  const isCause = ALERT_KINDS[a.alert].isCause === true
  if (isCause !== (ALERT_KINDS[b.alert].isCause === true)) return isCause ? -1 : 1
  return a.since < b.since ? -1 : a.since > b.since ? 1 : 0
}

/**
 * Details that show who called, and what. They are for holders of the admin token: logs, Redis and
 * the webhook have the hash, unless `log.callers` is `clear`.
 */
const CALLER_DETAILS: readonly string[] = ['caller', 'lastRefusedCall']

export function callerDetails(details: Alert['details']): Alert['details'] {
  return filterDetails(details, (name) => CALLER_DETAILS.includes(name))
}

export function withoutCallerDetails(details: Alert['details']): Alert['details'] {
  return filterDetails(details, (name) => !CALLER_DETAILS.includes(name))
}

function filterDetails(
  details: Alert['details'],
  isWanted: (name: string) => boolean,
): Alert['details'] {
  return Object.fromEntries(Object.entries(details).filter(([name]) => isWanted(name)))
}

/** What is true now, as one condition sees it: everything it names is active, all else is over. */
export interface Finding {
  readonly subject: string
  readonly summary: string
  /** The same when it is over. @default the summary, where that tells of the past already */
  readonly past?: string | undefined
  readonly details: Alert['details']
}

export interface Alerts {
  /** Pages first, of those causes first, then the longest active. */
  active(): readonly Alert[]
  /** Those that ended, the last first. */
  recent(): readonly Alert[]
  /** Called whenever one begins or ends; returns what ends that. */
  onChange(listener: (alert: Alert) => void): () => void
}

/** Where alerts go beside the log. */
export interface AlertSink {
  notify(alert: Alert): void
  /** Tells what waits, for at most as long as a shutdown may take. */
  close(): Promise<void>
}
