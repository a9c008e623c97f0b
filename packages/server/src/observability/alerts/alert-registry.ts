/**
 * Turns findings into alerts: notifies when an alert begins and when it ends, however often its
 * condition finds it, and keeps the active and the latest resolved ones.
 */
import type { Log } from '../log/logger.js'
import { type Alert, type AlertName, type Alerts, type Finding, mostUrgentFirst } from './alert.js'
import { ALERT_KINDS } from './alert-kinds.js'

/**
 * Active alerts of one name; more are only counted. Three of the fifteen names have the node as
 * their only subject, so fewer than 250 are active in total.
 */
export const ACTIVE_PER_ALERT_MAX = 20
export const RECENT_MAX = 100
/** Open dashboards, event streams and the webhook. */
const LISTENERS_MAX = 10_000

export interface AlertRegistryDeps {
  readonly log: Log
  readonly node: string
  /** The prefix of links to the runbook. */
  readonly runbook: string
  readonly off: readonly AlertName[]
}

interface ActiveAlert {
  alert: Alert
  /** The summary once it is resolved. */
  past: string
  readonly sinceMs: number
  lastFoundMs: number
}

export class AlertRegistry implements Alerts {
  readonly #deps: AlertRegistryDeps
  readonly #off: ReadonlySet<AlertName>
  /** By name, then by subject, in the order in which they began. */
  readonly #active = new Map<AlertName, Map<string, ActiveAlert>>()
  readonly #recent: Alert[] = []
  readonly #totals = new Map<AlertName, number>()
  readonly #listeners = new Set<(alert: Alert) => void>()

  constructor(deps: AlertRegistryDeps) {
    this.#deps = deps
    this.#off = new Set(deps.off)
  }

  active(): readonly Alert[] {
    const entries = [...this.#active.values()].flatMap((known) => [...known.values()])
    return entries.map(({ alert }) => alert).toSorted(mostUrgentFirst)
  }

  recent(): readonly Alert[] {
    return this.#recent
  }

  onChange(listener: (alert: Alert) => void): () => void {
    if (this.#listeners.size >= LISTENERS_MAX) throw new Error('too many listeners for alerts')
    // A wrapper, so that a function registered twice is removed one registration at a time.
    const own = (alert: Alert) => listener(alert)
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }

  /** How often each alert has begun since the start. */
  totals(): ReadonlyMap<AlertName, number> {
    return this.#totals
  }

  /** Activates everything that was found, and resolves what was not found for the hold time. */
  update(name: AlertName, findings: readonly Finding[], nowMs: number): void {
    if (this.#off.has(name)) return
    const others = this.activate(name, findings, nowMs)
    this.resolveQuiet(name, nowMs)
    this.countOthers(name, others)
  }

  /** Whether any alert of this name is active. */
  isActive(name: AlertName): boolean {
    return (this.#active.get(name)?.size ?? 0) > 0
  }

  /** Whether the configuration disables this alert. */
  isOff(name: AlertName): boolean {
    return this.#off.has(name)
  }

  /** Activates one finding between two updates. */
  report(name: AlertName, finding: Finding, nowMs: number): void {
    if (!this.#off.has(name)) this.activate(name, [finding], nowMs)
  }

  /**
   * Resolves everything when the node stops, because it could not report the end later. If the
   * trouble persists, another node reports it.
   */
  resolveAll(nowMs: number): void {
    for (const [name, known] of this.#active) {
      for (const entry of known.values()) this.resolve(name, entry, nowMs)
    }
  }

  /** Returns how many findings exceeded the bound. */
  private activate(name: AlertName, findings: readonly Finding[], nowMs: number): number {
    const known = this.activeOf(name)
    let others = 0
    for (const finding of findings) {
      const entry = known.get(finding.subject)
      if (entry !== undefined) refresh(entry, finding, nowMs)
      else if (known.size < ACTIVE_PER_ALERT_MAX) this.begin(name, finding, nowMs)
      else others++
    }
    return others
  }

  private begin(name: AlertName, finding: Finding, nowMs: number): void {
    const { subject, summary, past = summary, details } = finding
    const { node, runbook } = this.#deps
    const alert: Alert = {
      id: `${name}:${subject}`,
      alert: name,
      severity: ALERT_KINDS[name].severity,
      subject,
      summary,
      details,
      since: timeOf(nowMs),
      resolvedAt: null,
      node,
      runbook: `${runbook}#${name}`,
    }
    this.activeOf(name).set(subject, { alert, past, sinceMs: nowMs, lastFoundMs: nowMs })
    this.#totals.set(name, (this.#totals.get(name) ?? 0) + 1)
    const { log } = this.#deps
    const fields = { alert: name, subject, summary, since: alert.since, runbook: alert.runbook }
    if (alert.severity === 'page') log.error(fields, 'alert')
    else log.warn(fields, 'alert')
    this.notify(alert)
  }

  private resolveQuiet(name: AlertName, nowMs: number): void {
    for (const entry of this.activeOf(name).values()) {
      // A wall clock that was set back must not prolong an alert.
      entry.lastFoundMs = Math.min(entry.lastFoundMs, nowMs)
      const isQuiet =
        entry.lastFoundMs < nowMs && nowMs - entry.lastFoundMs >= ALERT_KINDS[name].holdMs
      if (isQuiet) this.resolve(name, entry, nowMs)
    }
  }

  private resolve(
    name: AlertName,
    { alert, past: summary, sinceMs }: ActiveAlert,
    nowMs: number,
  ): void {
    const { subject, since, runbook } = alert
    const ended = { ...alert, summary, resolvedAt: timeOf(nowMs) }
    this.activeOf(name).delete(subject)
    this.#recent.unshift(ended)
    if (this.#recent.length > RECENT_MAX) this.#recent.pop()
    const lastedMs = Math.max(0, nowMs - sinceMs)
    this.#deps.log.info({ alert: name, subject, summary, since, lastedMs, runbook }, 'alert over')
    this.notify(ended)
  }

  /** Adds the number of findings beyond the bound to the details of the newest alert. */
  private countOthers(name: AlertName, others: number): void {
    const last = others > 0 ? [...this.activeOf(name).values()].at(-1) : undefined
    if (last === undefined) return
    last.alert = { ...last.alert, details: { ...last.alert.details, others } }
  }

  private activeOf(name: AlertName): Map<string, ActiveAlert> {
    const known = this.#active.get(name)
    if (known !== undefined) return known
    const made = new Map<string, ActiveAlert>()
    this.#active.set(name, made)
    return made
  }

  private notify(alert: Alert): void {
    for (const listener of this.#listeners) listener(alert)
  }
}

function refresh(entry: ActiveAlert, finding: Finding, nowMs: number): void {
  const { summary, past = summary, details } = finding
  entry.lastFoundMs = nowMs
  entry.past = past
  entry.alert = { ...entry.alert, summary, details }
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
