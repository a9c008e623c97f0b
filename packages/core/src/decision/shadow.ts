/**
 * What rules in shadow and candidates said of a call: which of them judged it, and which would have
 * refused it.
 */
import type { Outcome } from '../algorithms/algorithm.js'
import type { Hash64 } from '../sip-hash.js'
import { longestWait, passes } from './outcomes.js'
import type { Plan, PlannedTake } from './plan.js'

/** A call that passed, and that a rule in shadow or a candidate would have refused. */
export interface ShadowRefusal {
  /** The rule; of a candidate the rule that it is tried beside. */
  readonly rule: string
  readonly mode: 'shadow' | 'candidate'
  readonly by: readonly string[]
  readonly caller: Hash64
  /** The limit with the longest wait; null: it is not known which of several. */
  readonly limitName: string | null
  /** The longest wait of the refusing limits. Null: waiting would not have helped. */
  readonly retryAfterMs: number | null
}

/** `posture`: the store was silent, and the outcome is made up. */
export type ShadowOutcome = Outcome & { readonly posture?: string | undefined }

export interface ShadowVerdict {
  /** Ids of the shadow rules, and `<id>:candidate`, that judged the call. */
  readonly judged: readonly string[]
  /** Those of them that would have refused it. */
  readonly refused: readonly string[]
  refusals(): readonly ShadowRefusal[]
}

const NO_IDS: readonly string[] = []
const NO_REFUSALS: readonly ShadowRefusal[] = []

/** Shared by all calls that nothing in shadow judged: most calls, so that those make nothing. */
export const NOT_JUDGED: ShadowVerdict = {
  judged: NO_IDS,
  refused: NO_IDS,
  refusals: () => NO_REFUSALS,
}

/**
 * The only place that says which shadow groups judged a call. None did where the enforced group,
 * the first, refused it: shadow groups are not asked then.
 */
export function judgeShadows(
  plan: Plan,
  outcomes: readonly (readonly ShadowOutcome[])[],
): ShadowVerdict {
  if (plan.shadows.length === 0 || !passes(outcomes[0] ?? [])) return NOT_JUDGED
  return new GroupVerdicts(plan, outcomes)
}

class GroupVerdicts implements ShadowVerdict {
  readonly judged: readonly string[]
  readonly refused: readonly string[]
  readonly #plan: Plan
  readonly #outcomes: readonly (readonly ShadowOutcome[])[]

  constructor(plan: Plan, outcomes: readonly (readonly ShadowOutcome[])[]) {
    const { groups, shadows } = plan
    let isWhole = true
    let hasRoom = true
    for (let g = 1; g < groups.length; g++) {
      isWhole &&= isJudged(groups[g], outcomes[g])
      hasRoom &&= passes(outcomes[g] ?? [])
    }
    this.judged = isWhole
      ? shadows
      : shadows.filter((_, i) => isJudged(groups[i + 1], outcomes[i + 1]))
    this.refused = hasRoom ? NO_IDS : shadows.filter((_, i) => !passes(outcomes[i + 1] ?? []))
    this.#plan = plan
    this.#outcomes = outcomes
  }

  refusals(): readonly ShadowRefusal[] {
    if (this.refused.length === 0) return NO_REFUSALS
    const { groups, shadows, matched } = this.#plan
    return shadows.flatMap((id, i) => {
      const takes = groups[i + 1] ?? []
      const outcomes = this.#outcomes[i + 1] ?? []
      const rule = takes[0]?.of.rule
      const match = matched.find((each) => each.rule.id === rule)
      if (match === undefined || passes(outcomes)) return []
      const binding = longestWait(outcomes)
      return {
        rule: match.rule.id,
        mode: id === match.rule.id ? 'shadow' : 'candidate',
        by: match.rule.by,
        caller: match.caller,
        limitName: nameAt(takes, outcomes, binding),
        retryAfterMs: outcomes[binding]?.retryAfterMs ?? null,
      }
    })
  }
}

/**
 * A group refused the call, or each of its limits said that it has room. A group that answered in
 * part, or by posture because the store was silent, said nothing.
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

/** A group that this node refused without the store has outcomes for some of its limits only. */
function nameAt(
  takes: readonly PlannedTake[],
  outcomes: readonly ShadowOutcome[],
  at: number,
): string | null {
  return outcomes.length === takes.length ? (takes[at]?.of.limit.name ?? null) : null
}
