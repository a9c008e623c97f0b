/**
 * What is the matter now, and what was. Each thing is told twice, however often it is found: when
 * it begins and when it is over.
 */
import type { Log } from '../log/logger.js'
import { type Alert, type AlertName, type Alerts, type Finding, mostUrgentFirst } from './alert.js'
import { ALERT_KINDS } from './alert-kinds.js'

/**
 * Of one name at a time; those beyond are counted. Three of the fifteen are of the node itself,
 * so that all together are below 250.
 */
export const ACTIVE_PER_ALERT_MAX = 20
export const RECENT_MAX = 100
/** Open dashboards, the board of events and the webhook. */
const LISTENERS_MAX = 10_000

export interface AlertRegistryDeps {
  readonly log: Log
  readonly node: string
  /** What links to sections of the runbook begin with. */
  readonly runbook: string
  readonly off: readonly AlertName[]
}

interface ActiveAlert {
  alert: Alert
  /** What is said of it when it is over. */
  past: string
  readonly sinceMs: number
  lastFoundMs: number
}

export class AlertRegistry implements Alerts {
  readonly #deps: AlertRegistryDeps
  readonly #off: ReadonlySet<AlertName>
  /** By name and then by subject, in the order they began. */
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
    if (this.#listeners.size >= LISTENERS_MAX) throw new Error('too many listen to alerts')
    // One function may be given twice, and each end ends one.
    const own = (alert: Alert) => listener(alert)
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }

  /** How often each has begun since the start. */
  totals(): ReadonlyMap<AlertName, number> {
    return this.#totals
  }

  /** Of this name all that is found is active, and what has not been found for a while is over. */
  update(name: AlertName, findings: readonly Finding[], nowMs: number): void {
    if (this.#off.has(name)) return
    const others = this.activate(name, findings, nowMs)
    this.resolveQuiet(name, nowMs)
    this.countOthers(name, others)
  }

  /** Whether one of this name goes on. */
  isActive(name: AlertName): boolean {
    return (this.#active.get(name)?.size ?? 0) > 0
  }

  /** Whether this alert is not wanted. */
  isOff(name: AlertName): boolean {
    return this.#off.has(name)
  }

  /** What was found at this moment, and may be gone at the next look. */
  report(name: AlertName, finding: Finding, nowMs: number): void {
    if (!this.#off.has(name)) this.activate(name, [finding], nowMs)
  }

  /**
   * A node that stops sees nothing any more. Whoever was told must not wait for an end that nobody
   * would tell; if it goes on, the next to see it says so.
   */
  resolveAll(nowMs: number): void {
    for (const [name, known] of this.#active) {
      for (const entry of known.values()) this.resolve(name, entry, nowMs)
    }
  }

  /** How many there was no room for. */
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
      // The wall clock was set back: nothing lasts longer for that than it would have.
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

  /** The last one stands for those that there was no room for. */
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
