/** What an alert is, and what conditions report. */
import { ALERT_KINDS, type AlertName } from './alert-kinds.js'

export type { AlertName } from './alert-kinds.js'

export interface Alert {
  /** `<alert>:<subject>`, the same on every node. */
  readonly id: string
  readonly alert: AlertName
  readonly severity: 'page' | 'ticket'
  /** A rule, a store address, or a rule and a caller hash; empty for the node itself. */
  readonly subject: string
  /** One sentence without secrets. */
  readonly summary: string
  readonly details: Readonly<Record<string, string | number | readonly string[]>>
  /** An ISO time. */
  readonly since: string
  /** Null while the alert is active. */
  readonly resolvedAt: string | null
  readonly node: string
  /** Link to its section of the runbook. */
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
 * Details that identify the caller. Only holders of the admin token see them: logs, Redis and the
 * webhook get the hash, unless `log.callers` is `clear`.
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

/** One subject that a condition currently finds in trouble. */
export interface Finding {
  readonly subject: string
  readonly summary: string
  /** The summary in the past tense, for the resolved alert. @default the summary */
  readonly past?: string | undefined
  readonly details: Alert['details']
}

export interface Alerts {
  /** In the order of `mostUrgentFirst`. */
  active(): readonly Alert[]
  /** Resolved alerts, the latest first. */
  recent(): readonly Alert[]
  /** Calls the listener whenever an alert begins or ends; returns the function that removes it. */
  onChange(listener: (alert: Alert) => void): () => void
}

/** Where alerts go in addition to the log. */
export interface AlertSink {
  notify(alert: Alert): void
  /** Delivers pending alerts, for at most as long as a shutdown may take. */
  close(): Promise<void>
}
