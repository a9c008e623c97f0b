/** The calls in flight on this node: what each holds, and how many there are by rule. */
import {
  candidateId,
  type Outcome,
  passes,
  type Plan,
  type PlannedTake,
  type PostureName,
  wholeLimit,
} from '@sluice/core'
import type { Groups } from '../store.js'

/** The calls in flight of one rule, as this node counts them. */
export interface InFlightStats {
  /** Places that calls of this node hold now, of all callers. */
  readonly inFlight: number
  /** The most that one caller may hold, on all nodes that share the counter. */
  readonly max: number
  /** Only if the rule set has priorities: how many of them calls of each priority hold. */
  readonly priorities?: Readonly<Record<string, number>>
}

/** Places that a take was granted, and the posture that granted them if the store did not. */
export type GrantedPlaces = Outcome & { readonly posture?: PostureName | undefined }

/** How the places of a call are given back when it has ended. */
export interface HoldOptions {
  /** Those that the store granted are given back by whoever settles the call, on any node. */
  readonly isSettled: boolean
}

/** Gives back what one take of an admitted call was granted. */
type GiveBack = (take: PlannedTake, granted: GrantedPlaces, options: HoldOptions) => void

interface RuleCount {
  inFlight: number
  /** That of the last call, for a rule that is gone or counts only callers with an override. */
  max: number
  readonly byPriority: Map<string, number>
}

/** One take of places that a call holds. */
interface Held {
  readonly take: PlannedTake
  readonly granted: GrantedPlaces
}

/** What one call adds to the count of a rule. */
interface Share {
  readonly count: RuleCount
  readonly places: number
  readonly priority: string | undefined
}

/** The most rules with a count; beyond that the oldest without calls are dropped. */
const RULES_MAX = 20_000

export class InFlightCalls {
  readonly #giveBack: GiveBack
  readonly #byRule = new Map<string, RuleCount>()

  constructor(giveBack: GiveBack) {
    this.#giveBack = giveBack
  }

  /**
   * By rule id: rules with calls in flight, and those that may have some, with the places of each.
   */
  stats(active: ReadonlyMap<string, number>): ReadonlyMap<string, InFlightStats> {
    const stats = new Map<string, InFlightStats>()
    for (const [rule, max] of active) stats.set(rule, { inFlight: 0, max })
    for (const [rule, { inFlight, max, byPriority }] of this.#byRule) {
      if (inFlight === 0 && !active.has(rule)) continue
      const priorities = byPriority.size === 0 ? {} : { priorities: Object.fromEntries(byPriority) }
      stats.set(rule, { inFlight, max: active.get(rule) ?? max, ...priorities })
    }
    return stats
  }

  /**
   * Returns the function that gives back the places of a call, once, when it has ended; undefined
   * if it holds none.
   */
  hold(
    plan: Plan,
    outcomes: Groups<GrantedPlaces>,
    options: HoldOptions,
  ): (() => void) | undefined {
    let held: Held[] | undefined
    for (let g = 0; g < plan.groups.length; g++) {
      const takes = plan.groups[g] ?? []
      for (let i = 0; i < takes.length; i++) {
        const take = takes[i]
        const granted = outcomes[g]?.[i]
        if (take === undefined || granted === undefined) continue
        if (!take.compiled.isPlaces || granted.granted === 0) continue
        held ??= []
        held.push({ take, granted })
      }
    }
    // What a refused call was granted in part is given back by whoever refused it.
    if (held === undefined || !passes(outcomes[0] ?? [])) return undefined
    return this.release(held, this.count(plan, held), options)
  }

  private release(
    held: readonly Held[],
    shares: readonly Share[],
    options: HoldOptions,
  ): () => void {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      for (const share of shares) add(share, -1)
      for (const { take, granted } of held) this.#giveBack(take, granted, options)
    }
  }

  /** Counts a call once for each rule, by the rule's first limit that it meets. */
  private count({ matched, groups, shadows }: Plan, held: readonly Held[]): readonly Share[] {
    const priority = matched[0]?.view.priority?.name
    const shares = new Map<string, Share>()
    for (const { take, granted } of held) {
      const { rule } = take.compiled
      const group = groups.findIndex((takes) => takes.includes(take))
      if (shares.has(rule) || shadows[group - 1] === candidateId(rule)) continue
      const { max } = wholeLimit(take.compiled).limit
      const share = { count: this.countOf(rule, max), places: granted.granted, priority }
      shares.set(rule, share)
      add(share, 1)
    }
    return [...shares.values()]
  }

  private countOf(rule: string, max: number): RuleCount {
    const known = this.#byRule.get(rule)
    if (known !== undefined) {
      known.max = max
      return known
    }
    const made = { inFlight: 0, max, byPriority: new Map<string, number>() }
    this.#byRule.set(rule, made)
    if (this.#byRule.size > RULES_MAX) this.forgetIdle()
    return made
  }

  private forgetIdle(): void {
    for (const [rule, { inFlight }] of this.#byRule) {
      if (this.#byRule.size <= RULES_MAX) return
      if (inFlight === 0) this.#byRule.delete(rule)
    }
  }
}

function add({ count, places, priority }: Share, sign: 1 | -1): void {
  count.inFlight += sign * places
  if (priority === undefined) return
  count.byPriority.set(priority, (count.byPriority.get(priority) ?? 0) + sign * places)
}
