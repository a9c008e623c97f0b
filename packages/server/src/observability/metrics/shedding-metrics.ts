/** Counts calls and shed calls by priority. No label value comes from callers. */
import type { Decision } from '@sluice/core'
import type { SheddingStats } from '@sluice/limiter'
import type { ShedCount, SheddingCounts } from '../alerts/conditions/shedding.js'
import type { Registry } from './registry.js'

/** Series of rules and priorities that are counted; further ones share `other`. */
const SERIES_MAX = 20_000
/** Priorities of earlier rules keep their counts; further ones share `other`. */
const PRIORITIES_MAX = 64
const OTHER = 'other'

export interface SheddingSources {
  /** What a busy process sheds; undefined if it does not. */
  readonly stats: () => SheddingStats | undefined
  /** The mean delay of the event loop in the last second, in milliseconds. */
  readonly loopDelayMs: () => number
}

/** Calls of one priority since the start. */
export interface PriorityTotals {
  readonly admitted: number
  readonly shed: number
  /** Calls that would have been shed, by rules in shadow mode and by `shed` in shadow mode. */
  readonly shadowShed: number
}

interface ShedSeries {
  readonly labels: readonly [rule: string, priority: string, mode: 'enforce' | 'shadow']
  count: number
}

export class SheddingMetrics {
  readonly #sources: SheddingSources
  readonly #priorities = new Map<string, PriorityCounts>()
  readonly #shed = new Map<string, ShedSeries>()
  readonly #totals = { calls: 0, shed: 0 }

  constructor(registry: Registry, sources: SheddingSources) {
    this.#sources = sources
    registry.total(
      'sluice_calls_total',
      'Calls by priority; priority="" if the rule set has none.',
      () => this.callSamples(),
      { labelNames: ['priority'] },
    )
    registry.total(
      'sluice_shed_kept_total',
      'Shed calls of priorities that are not to be shed: those that `shed` keeps, and the most important one.',
      () => this.kept().map(([priority, shed]) => [[priority], shed] as const),
      { labelNames: ['priority'] },
    )
    registry.total(
      'sluice_shed_total',
      'Calls shed to protect capacity, or that would have been with mode="shadow"; rule="" if the process itself was too busy.',
      () => this.samples(),
      { labelNames: ['rule', 'priority', 'mode'] },
    )
    registry.total(
      'sluice_shed_failures_total',
      'Calls let in because they could not be classified or shedding failed, and seconds in which the load could not be read.',
      () => sources.stats()?.failures ?? 0,
    )
    registry.gauge(
      'sluice_loop_delay_seconds',
      'Mean delay of the event loop in the last second while rules have `shed`, else 0.',
      'max',
      () => (sources.stats()?.isActive === true ? sources.loopDelayMs() / 1000 : 0),
    )
    registry.gauge(
      'sluice_shed_share',
      'Share of calls that a busy process sheds; 0 while it lets all in.',
      'max',
      () => 1 - (sources.stats()?.share ?? 1),
    )
  }

  /** Of calls of a set without priorities, only those that were shed are counted by priority. */
  count(decision: Decision): void {
    const { priority, reason, rule, allowed } = decision
    this.#totals.calls += 1
    const counts = priority === undefined ? undefined : this.countsOf(priority)
    counts?.record(allowed)
    if (reason === 'shed') {
      this.#totals.shed += 1
      counts?.recordShed(this.#sources.stats()?.kept.has(priority ?? '') === true)
      // What the process itself sheds, it counts itself.
      if (rule !== null) this.countShed(rule, priority ?? '', 'enforce')
    }
    if (decision.shadow.length === 0) return
    let isShadowShed = false
    for (const refusal of decision.shadowRefusals()) {
      if (refusal.reason !== 'shed') continue
      isShadowShed = true
      this.countShed(refusal.rule, priority ?? '', 'shadow')
    }
    if (isShadowShed && counts !== undefined) counts.shadowShed += 1
  }

  totals(): SheddingCounts {
    const each = this.samples().flatMap(([[rule = '', priority = '', mode], shed]): ShedCount[] =>
      mode === 'enforce' ? [{ rule, priority, shed }] : [],
    )
    return { ...this.#totals, each, kept: this.kept() }
  }

  /** The priorities of the active rules, the most important first, with their calls. */
  priorities(): readonly (readonly [priority: string, totals: PriorityTotals])[] {
    const stats = this.#sources.stats()
    return (stats?.priorities ?? []).map((priority) => {
      const { admitted = 0, shed = 0, shadowShed = 0 } = this.#priorities.get(priority) ?? {}
      const ofProcess = stats?.shed.get(priority)?.shadow ?? 0
      return [priority, { admitted, shed, shadowShed: shadowShed + ofProcess }]
    })
  }

  private kept(): readonly (readonly [priority: string, shed: number])[] {
    return [...this.#priorities].flatMap(([priority, { keptShed }]) =>
      keptShed === 0 ? [] : [[priority, keptShed]],
    )
  }

  private callSamples(): readonly (readonly [readonly string[], number])[] {
    let others = this.#totals.calls
    const samples = [...this.#priorities].map(([priority, { calls }]) => {
      others -= calls
      return [[priority], calls] as const
    })
    return others === 0 ? samples : [[[''], others], ...samples]
  }

  private countsOf(priority: string): PriorityCounts {
    const known = this.#priorities.get(priority)
    if (known !== undefined) return known
    if (this.#priorities.size >= PRIORITIES_MAX && priority !== OTHER) return this.countsOf(OTHER)
    const made = new PriorityCounts()
    this.#priorities.set(priority, made)
    return made
  }

  private countShed(rule: string, priority: string, mode: 'enforce' | 'shadow'): void {
    // Ids and priorities have no spaces.
    const key = `${rule} ${priority} ${mode}`
    const known = this.#shed.get(key)
    if (known !== undefined) known.count += 1
    else if (this.#shed.size >= SERIES_MAX && rule !== OTHER) this.countShed(OTHER, OTHER, mode)
    else this.#shed.set(key, { labels: [rule, priority, mode], count: 1 })
  }

  private samples(): readonly (readonly [readonly string[], number])[] {
    const ofRules = [...this.#shed.values()].map(({ labels, count }) => [labels, count] as const)
    const ofProcess = [...(this.#sources.stats()?.shed ?? [])].flatMap(
      ([priority, { enforce, shadow }]) => [
        [['', priority, 'enforce'], enforce] as const,
        [['', priority, 'shadow'], shadow] as const,
      ],
    )
    return [...ofRules, ...ofProcess]
  }
}

class PriorityCounts implements PriorityTotals {
  calls = 0
  admitted = 0
  shed = 0
  keptShed = 0
  shadowShed = 0

  record(isAdmitted: boolean): void {
    this.calls += 1
    if (isAdmitted) this.admitted += 1
  }

  recordShed(isKept: boolean): void {
    this.shed += 1
    if (isKept) this.keptShed += 1
  }
}
