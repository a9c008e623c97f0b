/**
 * Answers "why was this call refused?": lists every rule of the set with the outcome of each of its
 * limits.
 */
import type { Outcome } from '../algorithms/algorithm.js'
import { type Block, isBlock } from '../algorithms/block.js'
import { isConcurrency, placeHolders, type Places } from '../algorithms/concurrency.js'
import { type Log, shortenLog } from '../algorithms/sliding-window-log.js'
import { moduleChoiceOf, type ShownChoice } from '../algorithms/index.js'
import type { Limit } from '../limit.js'
import type { MatchExplanation } from '../matching/explain-matches.js'
import { wholeLimit } from '../matching/ceilings.js'
import type { MatchedRule } from '../matching/match.js'
import { formatHash } from '../sip-hash.js'
import type { PostureName } from './decision.js'
import { withBlock } from './fold-blocks.js'
import { candidateId, type Plan, type PlannedTake } from './plan.js'

export interface LimitExplanation extends ShownChoice {
  readonly name: string
  readonly limit: number
  /** Only for a priority below others with headroom: how much of the limit it may use. */
  readonly ceiling?: number
  /** 0 for calls in flight, which have no window. */
  readonly windowMs: number
  readonly candidate: boolean
  /** The units that the call would take. */
  readonly amount: number
  readonly remaining: number
  readonly resetAfterMs: number
  /** 0 if the limit has room; null if it never will. */
  readonly retryAfterMs: number | null
  readonly delayMs: number
  /**
   * The counter's state in the form of its algorithm; a log has at most 64 instants, with the
   * oldest merged, and places are listed by holder. Null if the counter is not in use.
   */
  readonly state: unknown
  /** The age of the state when it was read; 0 if the store answered. */
  readonly staleMs: number
  /**
   * Only for a limit with `block`: when the present block ends, in milliseconds since 1970 by the
   * store's clock (null if there is none), and how many blocks there were in a row.
   */
  readonly block?: { readonly untilMs: number | null; readonly times: number }
  /** Only if the store did not answer: the posture that decided; state and numbers are its own. */
  readonly posture?: PostureName
}

export interface RuleExplanation extends MatchExplanation {
  /** The hash that identifies the caller in keys and logs; null if the rule did not match. */
  readonly caller: string | null
  /**
   * The caller of the applied override, by attribute; `ip` may be a network. Null if no override
   * applies.
   */
  readonly override: Readonly<Record<string, string>> | null
  /** Only for a rule that counts calls in flight: where it does. */
  readonly note?: string
  readonly limits: readonly LimitExplanation[]
}

/** An entry point that does not see a call end cannot count it as in flight. */
const IN_FLIGHT_NOTE =
  'calls in flight are counted only where their end is seen: gateway, middlewares, reservations'

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
      if (isBlock(take.limit)) return []
      const own = outcomes[g]?.[i]
      const beside = take.compiled.block && outcomes[g]?.[i + 1]
      const isBlocked = beside !== undefined && beside.retryAfterMs !== 0
      const outcome = own && isBlocked ? withBlock(own, beside) : own
      const block = take.compiled.block && explainBlock(beside)
      const candidate = plan.shadows[g - 1] === candidateId(take.compiled.rule)
      return outcome === undefined
        ? []
        : { rule: take.compiled.rule, limit: explainLimit(take, outcome, candidate, block) }
    }),
  )
  const matchedById = new Map(plan.matched.map((matched) => [matched.rule.id, matched]))
  return matches.map((match) => {
    const own = limits.flatMap((found) => (found.rule === match.rule ? found.limit : []))
    const isNoted = own.some(({ algorithm }) => algorithm === 'concurrency')
    return {
      ...match,
      ...explainCaller(matchedById.get(match.rule)),
      ...(isNoted ? { note: IN_FLIGHT_NOTE } : {}),
      limits: own,
    }
  })
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

function shownState(state: unknown, limit: Limit): unknown {
  if (!Array.isArray(state)) return state ?? null
  return isConcurrency(limit) ? placeHolders(state as Places) : shortenLog(state as Log)
}

function explainBlock(outcome: PeekOutcome | undefined): LimitExplanation['block'] {
  const { until, times } = (outcome?.state ?? { until: 0, times: 0 }) as Block
  const isBlocked = outcome !== undefined && outcome.resetAfterMs > 0
  return { untilMs: isBlocked ? Math.ceil(until / 1000) : null, times }
}

function explainLimit(
  { limit, amount, compiled }: PlannedTake,
  outcome: PeekOutcome,
  candidate: boolean,
  block: LimitExplanation['block'],
): LimitExplanation {
  const { remaining, resetAfterMs, retryAfterMs, delayMs, state, posture, staleMs = 0 } = outcome
  const whole = wholeLimit(compiled).limit.capacity
  return {
    name: limit.name,
    ...moduleChoiceOf(limit),
    limit: whole,
    ...(limit.capacity < whole && { ceiling: limit.capacity }),
    windowMs: limit.windowMs,
    candidate,
    amount,
    remaining,
    resetAfterMs,
    retryAfterMs,
    delayMs,
    state: shownState(state, limit),
    staleMs: Math.ceil(staleMs),
    ...(block === undefined ? {} : { block }),
    ...(posture === undefined ? {} : { posture }),
  }
}
