/** Determines which shadow rules and candidates judged a call, and which would have refused it. */
import { isBlock } from '../algorithms/block.js'
import type { Outcome } from '../algorithms/algorithm.js'
import type { NormalizedCall } from '../matching/call-view.js'
import type { MatchedRule } from '../matching/match.js'
import type { Hash64 } from '../sip-hash.js'
import { longestWait, passes } from './outcomes.js'
import type { Plan, PlannedTake } from './plan.js'

/** A call that passed and that a shadow rule or a candidate would have refused. */
export interface ShadowRefusal {
  /** The rule; for a candidate, the rule it belongs to. */
  readonly rule: string
  readonly mode: 'shadow' | 'candidate'
  readonly by: readonly string[]
  readonly caller: Hash64
  /** The normalized call that the rule matched. */
  readonly call: NormalizedCall
  /** The limit with the longest wait; null if it is unknown which of several refused. */
  readonly limitName: string | null
  /** The longest wait of the refusing limits; null if waiting would not have helped. */
  readonly retryAfterMs: number | null
  readonly reason: 'over' | 'blocked' | 'shed' | 'cost_exceeds_limit'
}

/** `posture` is set if the store did not answer and the outcome is a fallback. */
export type ShadowOutcome = Outcome & { readonly posture?: string | undefined }

/** The shadow groups that would have refused a call. */
export interface ShadowRefusals {
  /** Ids of shadow rules, and `<id>:candidate`. */
  readonly ids: readonly string[]
  list(): readonly ShadowRefusal[]
}

const NO_IDS: readonly string[] = []
const NO_REFUSALS: readonly ShadowRefusal[] = []

/** Shared by all calls without a shadow refusal, so that most calls allocate nothing. */
export const NO_SHADOW_REFUSALS: ShadowRefusals = { ids: NO_IDS, list: () => NO_REFUSALS }

/**
 * Returns the ids of the shadow rules, and `<id>:candidate`, that judged a call; the only place
 * that decides this. None did if the first group, the enforced one, refused the call: shadow groups
 * are then not evaluated.
 */
export function judgedIds(
  plan: Plan,
  outcomes: readonly (readonly ShadowOutcome[])[],
): readonly string[] {
  const { groups, shadows } = plan
  if (shadows.length === 0 || !passes(outcomes[0] ?? [])) return NO_IDS
  for (let g = 1; g < groups.length; g++) {
    if (isJudged(groups[g], outcomes[g])) continue
    return shadows.filter((_, i) => isJudged(groups[i + 1], outcomes[i + 1]))
  }
  return shadows
}

/** Returns those of `judged` that would have refused. */
export function shadowRefusalsOf(
  plan: Plan,
  outcomes: readonly (readonly ShadowOutcome[])[],
  judged: readonly string[],
): ShadowRefusals {
  if (judged.length === 0) return NO_SHADOW_REFUSALS
  for (let g = 1; g < plan.groups.length; g++) {
    if (!passes(outcomes[g] ?? [])) return new RefusingGroups(plan, outcomes)
  }
  return NO_SHADOW_REFUSALS
}

class RefusingGroups implements ShadowRefusals {
  readonly ids: readonly string[]
  readonly #plan: Plan
  readonly #outcomes: readonly (readonly ShadowOutcome[])[]
  #list: readonly ShadowRefusal[] | undefined

  constructor(plan: Plan, outcomes: readonly (readonly ShadowOutcome[])[]) {
    this.ids = plan.shadows.filter((_, i) => !passes(outcomes[i + 1] ?? []))
    this.#plan = plan
    this.#outcomes = outcomes
  }

  /** Built once, on first use: statistics and the log both read it. */
  list(): readonly ShadowRefusal[] {
    this.#list ??= this.makeList()
    return this.#list
  }

  private makeList(): readonly ShadowRefusal[] {
    const { groups, shadows, matched } = this.#plan
    const refusals: ShadowRefusal[] = []
    for (let i = 0; i < shadows.length; i++) {
      const outcomes = this.#outcomes[i + 1] ?? []
      if (passes(outcomes)) continue
      const takes = groups[i + 1] ?? []
      const match = matchOf(matched, takes[0]?.compiled.rule)
      if (match === undefined) continue
      const { id, by } = match.rule
      const binding = longestWait(outcomes)
      refusals.push({
        rule: id,
        mode: id === shadows[i] ? 'shadow' : 'candidate',
        by,
        caller: match.caller,
        call: match.view,
        limitName: nameAt(takes, outcomes, binding),
        retryAfterMs: outcomes[binding]?.retryAfterMs ?? null,
        reason: reasonAt(takes, outcomes, binding),
      })
    }
    return refusals
  }
}

function reasonAt(
  takes: readonly PlannedTake[],
  outcomes: readonly ShadowOutcome[],
  at: number,
): ShadowRefusal['reason'] {
  const take = outcomes.length === takes.length ? takes[at] : undefined
  const isNever = (outcomes[at]?.retryAfterMs ?? null) === null
  if (isNever && take?.gate !== true) return 'cost_exceeds_limit'
  if (takes[0]?.compiled.sheds === true) return 'shed'
  return take !== undefined && isBlock(take.limit) ? 'blocked' : 'over'
}

function matchOf(
  matched: readonly MatchedRule[],
  rule: string | undefined,
): MatchedRule | undefined {
  for (let i = 0; i < matched.length; i++) if (matched[i]?.rule.id === rule) return matched[i]
  return undefined
}

/**
 * Whether a group judged the call: it refused, or each of its limits had room. A group with some
 * outcomes missing, or decided by posture because the store did not answer, did not judge it.
 */
function isJudged(
  takes: readonly PlannedTake[] = [],
  outcomes: readonly ShadowOutcome[] = [],
): boolean {
  if (!passes(outcomes)) return true
  if (outcomes.length < takes.length) return false
  for (let i = 0; i < outcomes.length; i++) if (outcomes[i]?.posture !== undefined) return false
  return true
}

/**
 * Returns a limit's name. A group refused on this node, without the store, has only some outcomes.
 */
function nameAt(
  takes: readonly PlannedTake[],
  outcomes: readonly ShadowOutcome[],
  at: number,
): string | null {
  return outcomes.length === takes.length ? (takes[at]?.compiled.limit.name ?? null) : null
}
