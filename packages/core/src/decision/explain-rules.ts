/**
 * The answer to "why was this call refused?": every rule of the set, with what each of its limits
 * says.
 */
import type { Outcome } from '../algorithms/algorithm.js'
import { type Log, shortenLog } from '../algorithms/sliding-window-log.js'
import type { AlgorithmName } from '../algorithms/index.js'
import type { MatchExplanation } from '../matching/explain-matches.js'
import type { MatchedRule } from '../matching/match.js'
import { formatHash } from '../sip-hash.js'
import type { PostureName } from './decision.js'
import { candidateId, type Plan, type PlannedTake } from './plan.js'

export interface LimitExplanation {
  readonly name: string
  readonly algorithm: AlgorithmName
  readonly limit: number
  readonly windowMs: number
  readonly candidate: boolean
  /** What the call would take. */
  readonly amount: number
  readonly remaining: number
  readonly resetAfterMs: number
  /** 0: it has room. Null: it never will. */
  readonly retryAfterMs: number | null
  readonly delayMs: number
  /**
   * The counter's state as the algorithm keeps it, of a log at most 64 instants, the oldest added
   * up; null: it is not in use.
   */
  readonly state: unknown
  /** How old the state was when it was read; 0 when the store itself answered. */
  readonly staleMs: number
  /** Only where the store was silent: what answered, and whose state and numbers these are. */
  readonly posture?: PostureName
}

export interface RuleExplanation extends MatchExplanation {
  /** The hash that stands for the caller in keys and logs; null where the rule did not match. */
  readonly caller: string | null
  /**
   * Whom the override is for whose limits hold, by attribute, for `ip` perhaps a network; null
   * where none holds.
   */
  readonly override: Readonly<Record<string, string>> | null
  readonly limits: readonly LimitExplanation[]
}

type PeekOutcome = Outcome & {
  readonly state?: unknown
  readonly staleMs?: number | undefined
  readonly posture?: PostureName | undefined
}

export function explainRules(
  matches: readonly MatchExplanation[],
  plan: Plan,
  outcomes: readonly (readonly PeekOutcome[])[],
): readonly RuleExplanation[] {
  const limits = plan.groups.flatMap((takes, g) =>
    takes.flatMap((take, i) => {
      const outcome = outcomes[g]?.[i]
      const candidate = plan.shadows[g - 1] === candidateId(take.compiled.rule)
      return outcome === undefined
        ? []
        : { rule: take.compiled.rule, limit: explainLimit(take, outcome, candidate) }
    }),
  )
  const matchedById = new Map(plan.matched.map((matched) => [matched.rule.id, matched]))
  return matches.map((match) => ({
    ...match,
    ...explainCaller(matchedById.get(match.rule)),
    limits: limits.flatMap((found) => (found.rule === match.rule ? found.limit : [])),
  }))
}

function explainCaller(
  matched: MatchedRule | undefined,
): Pick<RuleExplanation, 'caller' | 'override'> {
  if (matched === undefined) return { caller: null, override: null }
  const { rule, caller, override } = matched
  const callerEntries =
    override && rule.by.map((name, i) => [name, override.caller[i] ?? ''] as const)
  return {
    caller: formatHash(caller),
    override: callerEntries ? Object.fromEntries(callerEntries) : null,
  }
}

function explainLimit(
  { limit, amount }: PlannedTake,
  outcome: PeekOutcome,
  candidate: boolean,
): LimitExplanation {
  const { remaining, resetAfterMs, retryAfterMs, delayMs, state, posture, staleMs = 0 } = outcome
  return {
    name: limit.name,
    algorithm: limit.algorithm,
    limit: limit.capacity,
    windowMs: limit.windowMs,
    candidate,
    amount,
    remaining,
    resetAfterMs,
    retryAfterMs,
    delayMs,
    state: Array.isArray(state) ? shortenLog(state as Log) : (state ?? null),
    staleMs: Math.ceil(staleMs),
    ...(posture === undefined ? {} : { posture }),
  }
}
