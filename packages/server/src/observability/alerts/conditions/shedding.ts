/** Finds that too many calls are shed, and that calls are shed that should not be. */
import type { Finding } from '../alert.js'
import { ConsecutiveFindings } from './consecutive-findings.js'
import { RecentCounts } from './recent-counts.js'

/**
 * More than 1 % of the calls of ten seconds, and at least ten of them: below that, shedding does
 * what it is for at the peak of a second.
 */
const SHARE = 0.01
const LEAST = 10
const WINDOW_SECONDS = 10
/** A step in traffic is over before anybody has looked; what lasts longer is missing capacity. */
const CONSECUTIVE_MIN = 30
/**
 * Ten calls in half a minute: a single one may be the end of a burst, but these calls are those
 * that everything else is shed for.
 */
const KEPT_LEAST = 10
const KEPT_WINDOW_SECONDS = 30
/** Rules and priorities that the details list: those with most shed calls. */
const LISTED_MAX = 10

/** Counts since the start. */
export interface SheddingCounts {
  readonly calls: number
  readonly shed: number
  /** What was shed by rule and priority; `rule` is empty for the process itself. */
  readonly each: readonly ShedCount[]
  /** Shed calls of priorities that are not to be shed: kept ones, and the most important. */
  readonly kept: readonly (readonly [priority: string, shed: number])[]
}

export interface ShedCount {
  readonly rule: string
  /** Empty if the rule set has none. */
  readonly priority: string
  readonly shed: number
}

export class SheddingShare {
  readonly #totals = new RecentCounts(WINDOW_SECONDS)
  readonly #rules = new RecentCounts(WINDOW_SECONDS)
  readonly #priorities = new RecentCounts(WINDOW_SECONDS)
  readonly #streaks = new ConsecutiveFindings(CONSECUTIVE_MIN)

  /** Called once a second. */
  evaluate(counts: SheddingCounts): readonly Finding[] {
    for (const each of [this.#totals, this.#rules, this.#priorities]) each.nextSecond()
    const calls = this.#totals.record('calls', counts.calls)
    const shed = this.#totals.record('shed', counts.shed)
    const rules = grownBy(this.#rules, counts.each, ({ rule }) => rule)
    const priorities = grownBy(this.#priorities, counts.each, ({ priority }) => priority)
    const isMany = shed >= LEAST && shed > calls * SHARE
    return this.#streaks.record(isMany ? [findingOf(calls, shed, rules, priorities)] : [])
  }
}

export class SheddingKept {
  readonly #counts = new RecentCounts(KEPT_WINDOW_SECONDS)

  /** Called once a second. */
  evaluate({ kept }: Pick<SheddingCounts, 'kept'>): readonly Finding[] {
    this.#counts.nextSecond()
    return kept.flatMap(([priority, total]) => {
      const shed = this.#counts.record(priority, total)
      if (shed < KEPT_LEAST) return []
      const text = (were: string) =>
        `${shed} calls of priority "${priority}" ${were} shed in the last ${KEPT_WINDOW_SECONDS} s; ` +
        'none should be.'
      const details = { priority, shed }
      return { subject: priority, summary: text('were'), past: text('had been'), details }
    })
  }
}

function findingOf(
  calls: number,
  shed: number,
  rules: readonly Grown[],
  priorities: readonly Grown[],
): Finding {
  const named = priorities.filter(({ name }) => name !== '').map(({ name }) => name)
  const whose = named.length === 0 ? '' : ` of priority ${named.join(', ')}`
  const text = (sheds: string) =>
    `This node ${sheds} ${percent(shed / calls)} of its calls in the last ${WINDOW_SECONDS} s${whose}: ` +
    `${rules.map(shedder).join(', ')}.`
  return {
    subject: '',
    summary: text('sheds'),
    past: text('shed'),
    details: {
      calls,
      shed,
      shedBy: rules.map(({ name, count }) => `${name === '' ? 'shed' : name}: ${count}`),
      priorities: priorities
        .filter(({ name }) => name !== '')
        .map(({ name, count }) => `${name}: ${count}`),
    },
  }
}

interface Grown {
  readonly name: string
  readonly count: number
}

/** Sums what grew by name; the most first. */
function grownBy(
  counts: RecentCounts,
  each: readonly ShedCount[],
  nameOf: (count: ShedCount) => string,
): readonly Grown[] {
  const totals = new Map<string, number>()
  for (const one of each) {
    const name = nameOf(one)
    totals.set(name, (totals.get(name) ?? 0) + one.shed)
  }
  return [...totals]
    .map(([name, total]) => ({ name, count: counts.record(name, total) }))
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => b.count - a.count)
    .slice(0, LISTED_MAX)
}

function shedder({ name, count }: Grown): string {
  return name === '' ? `${count} because it is too busy` : `${count} by rule "${name}"`
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`
}
