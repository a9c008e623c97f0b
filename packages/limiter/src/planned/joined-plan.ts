/**
 * Joins the plans of several calls into one, so that the store decides them in one trip, and takes
 * its outcomes apart again.
 *
 * The first groups of all calls become one, charged whole or not at all. A counter that several
 * calls take from is named once, with their amounts added up; each call then sees it as if they had
 * come one after the other.
 */
import {
  algorithmOf,
  type CounterKey,
  type MatchedRule,
  type Outcome,
  type Plan,
  type PlannedTake,
  withDebt,
} from '@sluice/core'
import type { Groups } from '../store.js'

/** An outcome of the store, or of this node in its place. */
export type KnownOutcome = Outcome & { readonly state?: unknown }

/** What became of one of the joined calls: those of its limits of which something is known. */
export interface JoinedAnswer {
  readonly plan: Plan
  readonly outcomes: Groups<KnownOutcome>
}

/** What a call is to the others of its plan. */
export interface CallRole {
  /** Its first group is decided by itself. */
  readonly isAlternative: boolean
  /**
   * What it counts first is charged whatever else is refused, also for rules in shadow. Only for a
   * plan in which every call that takes counts first, because the others would be refused with it.
   */
  readonly isCounted: boolean
}

const NO_NAMES: readonly string[] = []
/** Of a take whose counter no other call takes from. */
const NOTHING_BEFORE = 0
/** With more counters than this a map finds one faster than a search. */
const SEARCHED_MAX = 32

/** A plan of one call, and where its takes are in the joined plan, in order. */
class JoinedCall {
  readonly own: Plan
  readonly role: CallRole
  /** The group of each take; that of an alternative is -1 for the first, and so on. */
  readonly groups: number[] = []
  readonly places: number[] = []
  /** The units of each counter that calls before this one take. */
  readonly before: number[] = []

  constructor(own: Plan, role: CallRole) {
    this.own = own
    this.role = role
  }
}

/** The place of a counter in the joined plan. */
class CounterPlace {
  readonly hi: number
  readonly lo: number
  readonly group: number
  readonly place: number

  constructor({ hi, lo }: CounterKey, group: number, place: number) {
    this.hi = hi
    this.lo = lo
    this.group = group
    this.place = place
  }
}

export class JoinedPlan implements Plan {
  readonly matched: MatchedRule[] = []
  readonly #first: PlannedTake[] = []
  readonly #shadowGroups: PlannedTake[][] = []
  readonly #alternatives: PlannedTake[][] = []
  readonly #calls: JoinedCall[] = []
  readonly #places: CounterPlace[] = []
  /** Only where there are many counters. */
  #byKey: Map<string, CounterPlace> | undefined
  #shadows: string[] | undefined
  #groups: PlannedTake[][] | undefined
  #listed: { readonly plan: Plan; readonly places: ReadonlyMap<PlannedTake, number> } | undefined

  add(own: Plan, role: CallRole): void {
    const call = new JoinedCall(own, role)
    this.#calls.push(call)
    for (let i = 0; i < own.matched.length; i++) {
      const match = own.matched[i]
      if (match !== undefined) this.matched.push(match)
    }
    for (let g = 0; g < own.groups.length; g++) this.addGroup(call, g, own.groups[g] ?? [])
  }

  get groups(): Groups<PlannedTake> {
    this.#groups ??= [this.#first, ...this.#shadowGroups, ...this.#alternatives]
    return this.#groups
  }

  get shadows(): readonly string[] {
    if (this.#alternatives.length === 0) return this.#shadows ?? NO_NAMES
    return [
      ...(this.#shadows ?? NO_NAMES),
      ...this.#alternatives.map(([take]) => take?.compiled.rule ?? ''),
    ]
  }

  get alternatives(): number | undefined {
    return this.#alternatives.length === 0 ? undefined : this.#alternatives.length
  }

  /** The part of an answer to this plan, or to what is left of it, that is about one call. */
  answerOf(index: number, plan: Plan, outcomes: Groups<KnownOutcome>): JoinedAnswer | undefined {
    const call = this.#calls[index]
    if (call === undefined) return undefined
    return plan === this ? this.ownAnswer(call, outcomes) : this.knownAnswer(call, plan, outcomes)
  }

  private addGroup(call: JoinedCall, from: number, takes: readonly PlannedTake[]): void {
    let group = 0
    let into: PlannedTake[] | undefined =
      from === 0 && !call.role.isAlternative ? this.#first : undefined
    for (let i = 0; i < takes.length; i++) {
      const take = takes[i]
      if (take === undefined || this.merge(call, take)) continue
      if (call.role.isCounted && take.overdraw === true) {
        this.place(call, take, 0, this.#first)
        continue
      }
      if (into === undefined) {
        into = []
        group = from === 0 ? this.openAlternative(into) : this.openShadow(call.own, from, into)
      }
      this.place(call, take, group, into)
    }
  }

  private place(call: JoinedCall, take: PlannedTake, group: number, into: PlannedTake[]): void {
    call.groups.push(group)
    call.places.push(into.length)
    call.before.push(NOTHING_BEFORE)
    this.remember(take.key, group, into.length)
    into.push(take)
  }

  private openAlternative(takes: PlannedTake[]): number {
    this.#alternatives.push(takes)
    return -this.#alternatives.length
  }

  private openShadow({ shadows }: Plan, from: number, takes: PlannedTake[]): number {
    this.#shadows ??= []
    this.#shadows.push(shadows[from - 1] ?? '')
    this.#shadowGroups.push(takes)
    return this.#shadowGroups.length
  }

  /** Adds the amount of a take to one of the same counter; false if there is none. */
  private merge(call: JoinedCall, take: PlannedTake): boolean {
    const known = this.find(take.key)
    if (known === undefined) return false
    const { group, place } = known
    const takes = this.groupOf(group)
    const other = takes[place]
    if (other === undefined) return false
    call.groups.push(group)
    call.places.push(place)
    call.before.push(other.amount)
    takes[place] = sumOf(other, take)
    return true
  }

  /** Where a counter is taken from; looks at each take as long as there are few. */
  private find({ hi, lo }: CounterKey): CounterPlace | undefined {
    if (this.#byKey !== undefined) return this.#byKey.get(`${hi}.${lo}`)
    for (let i = 0; i < this.#places.length; i++) {
      const place = this.#places[i]
      if (place !== undefined && place.hi === hi && place.lo === lo) return place
    }
    return undefined
  }

  private remember(key: CounterKey, group: number, place: number): void {
    const counter = new CounterPlace(key, group, place)
    this.#places.push(counter)
    if (this.#places.length <= SEARCHED_MAX) return
    if (this.#byKey !== undefined) this.#byKey.set(`${key.hi}.${key.lo}`, counter)
    else this.#byKey = new Map(this.#places.map((each) => [`${each.hi}.${each.lo}`, each]))
  }

  private groupOf(group: number): PlannedTake[] {
    if (group === 0) return this.#first
    const takes = group > 0 ? this.#shadowGroups[group - 1] : this.#alternatives[-group - 1]
    return takes ?? []
  }

  private ownAnswer(call: JoinedCall, outcomes: Groups<KnownOutcome>): JoinedAnswer {
    const { own, groups, places, before } = call
    const answers: KnownOutcome[][] = []
    let at = 0
    for (let g = 0; g < own.groups.length; g++) {
      const takes = own.groups[g] ?? []
      const row: KnownOutcome[] = []
      for (let i = 0; i < takes.length; i++, at++) {
        const group = this.indexOf(groups[at] ?? 0)
        const joined = this.groups[group]
        const rows = outcomes[group]
        // Of a group that this node refused without the store, only some outcomes are there.
        if (joined === undefined || rows?.length !== joined.length) continue
        const take = takes[i]
        const all = joined[places[at] ?? 0]
        const outcome = rows[places[at] ?? 0]
        if (take === undefined || all === undefined || outcome === undefined) continue
        row.push(all === take ? outcome : ownOutcome(take, all, before[at] ?? 0, outcome))
      }
      answers.push(row)
    }
    return { plan: own, outcomes: answers }
  }

  /** The answer of a refusal that lists only limits that refuse. */
  private knownAnswer(
    { own, groups, places, before }: JoinedCall,
    plan: Plan,
    outcomes: Groups<KnownOutcome>,
  ): JoinedAnswer {
    const listed = this.listedIn(plan)
    const takes: PlannedTake[] = []
    const answers: KnownOutcome[] = []
    let at = 0
    for (const group of own.groups) {
      for (const take of group) {
        const joined = this.groups[this.indexOf(groups[at] ?? 0)]?.[places[at] ?? 0]
        const units = before[at] ?? 0
        at++
        const place = joined === undefined ? undefined : listed.get(joined)
        const outcome = place === undefined ? undefined : outcomes[0]?.[place]
        if (joined === undefined || outcome === undefined) continue
        takes.push(take)
        answers.push(joined === take ? outcome : ownOutcome(take, joined, units, outcome))
      }
    }
    return {
      plan: { matched: own.matched, groups: [takes], shadows: NO_NAMES },
      outcomes: [answers],
    }
  }

  /** The places of the takes of a refusal: found once for all calls. */
  private listedIn(plan: Plan): ReadonlyMap<PlannedTake, number> {
    if (this.#listed?.plan !== plan) {
      const places = new Map((plan.groups[0] ?? []).map((take, i) => [take, i] as const))
      this.#listed = { plan, places }
    }
    return this.#listed.places
  }

  /** The index of a group; alternatives are the last. */
  private indexOf(group: number): number {
    return group >= 0 ? group : this.#shadowGroups.length - group
  }
}

/**
 * One take of what both take. If one of them counts before it compares, the sum does. Where their
 * limits differ the smallest decides, so that no limit admits more than its own number: that of a
 * gate may be larger than the limit itself, and two calls of one caller may be of two tiers.
 */
function sumOf(a: PlannedTake, b: PlannedTake): PlannedTake {
  const amount = a.amount + b.amount
  const gate = amount === 0 && (a.gate === true || b.gate === true)
  const overdraw = amount > 0 && (a.overdraw === true || b.overdraw === true)
  const smallest = b.limit.capacity < a.limit.capacity ? b : a
  return { ...smallest, amount, gate, overdraw }
}

/** The outcome of one of several calls that took from a counter together. */
function ownOutcome(
  take: PlannedTake,
  all: PlannedTake,
  before: number,
  outcome: KnownOutcome,
): KnownOutcome {
  const { amount } = take
  // A gate may have a larger limit than what counts; its figures are those of its own limit. What
  // counts has those of the limit that decided: with its own it might claim room that was denied.
  const margin = take.gate === true ? take.limit.capacity - all.limit.capacity : 0
  const present = outcome.remaining + margin
  if (outcome.retryAfterMs === 0) {
    if (outcome.granted === 0) return { ...outcome, remaining: present }
    const after = Math.max(0, all.amount - before - amount)
    return { ...outcome, granted: amount, remaining: present + after }
  }
  const left = leftBefore(all, outcome) - before + margin
  if (amount > left || left <= 0) return { ...outcome, remaining: present }
  const remaining = all.overdraw === true ? left - amount : present
  return { ...outcome, granted: 0, remaining, retryAfterMs: 0 }
}

/**
 * The units that a limit had left before a take that it refused; below 0 if it owed some. Exact if
 * the state is known, as it is where a store refused.
 */
export function leftBefore({ limit, overdraw }: PlannedTake, outcome: KnownOutcome): number {
  const { state, granted, remaining, at } = outcome
  if (overdraw !== true || state === undefined) return remaining
  const left = algorithmOf(limit).peek(state, withDebt(limit), 0, at).remaining
  return left - limit.debt + granted
}
