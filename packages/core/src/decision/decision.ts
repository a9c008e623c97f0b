/** Combines the outcomes of all limits of a call into one decision. */
import type { Outcome } from '../algorithms/algorithm.js'
import { moduleChoiceOf, type ShownChoice } from '../algorithms/index.js'
import type { NormalizedCall } from '../matching/call-view.js'
import type { Cost } from '../rules/rule.js'
import { formatHash, type Hash64 } from '../sip-hash.js'
import type { RuleExplanation } from './explain-rules.js'
import { foldBlocks, type FoldedOutcome } from './fold-blocks.js'
import { bindingRefusal, longestDelay, passes, shareLeft, tightest } from './outcomes.js'
import { candidateId, type Plan, type PlannedTake } from './plan.js'
import {
  judgedIds,
  NO_SHADOW_REFUSALS,
  shadowRefusalsOf,
  type ShadowOutcome,
  type ShadowRefusal,
  type ShadowRefusals,
} from './shadow-refusals.js'

export type Reason =
  | 'within'
  | 'over'
  | 'blocked'
  | 'shed'
  | 'cost_exceeds_limit'
  | 'unmatched'
  | 'posture'
/** The result of one matching rule, whatever the decision was. */
export type RuleOutcome = 'allowed' | 'refused' | 'shadow_refused'
export type Source = 'store' | 'lease' | 'local' | 'deny-cache' | 'posture'
/** The posture that decided for a rule when the store did not answer. */
export type PostureName = 'open' | 'closed' | 'local'
/** The rules that were decided by their posture. */
export type Postures = Readonly<Record<string, PostureName>>

/** One enforced limit as headers and problem bodies show it. */
export interface Policy extends ShownChoice {
  readonly name: string
  readonly rule: string
  readonly limitName: string
  readonly limit: number
  /** 0 for calls in flight, which have no window. */
  readonly windowMs: number
  readonly remaining: number
  readonly resetAfterMs: number
  /** 0 if the limit had room; null if it never will. */
  readonly retryAfterMs: number | null
  /** The route of the counter; set only by `limits`, for a rule that counts by `route`. */
  readonly route?: string
}

/** The caller that the binding rule of a decision counts. */
export interface BindingCaller {
  readonly rule: string
  readonly by: readonly string[]
  /** The hash that identifies the caller in keys and logs. */
  readonly caller: string
  /** The normalized call that the rule matched. */
  readonly call: NormalizedCall
}

/** Data that callers request in addition to the decision. */
export interface DecisionExtras {
  readonly receipt?: string | undefined
  readonly explain?: readonly RuleExplanation[] | undefined
  /** The rules for which the store did not answer. */
  readonly postures?: Postures | undefined
  /** Replaces the reason that follows from the outcomes. */
  readonly reason?: Reason | undefined
  /** The age of the store state that the decision was made from. */
  readonly staleMs?: number | undefined
  /** Of a shed call: when to retry. @default the least */
  readonly shedRetryMs?: number | undefined
  /** Gives back the places that the call holds. */
  readonly release?: (() => void) | undefined
}

export interface Decision {
  readonly allowed: boolean
  readonly reason: Reason
  /** The binding rule and limit: the longest wait of a refusal, else the smallest share left. */
  readonly rule: string | null
  readonly limitName: string | null
  readonly limit: number | null
  readonly remaining: number | null
  readonly resetAfterMs: number | null
  /** 0 if allowed; else the longest wait of the refusing limits; null if waiting does not help. */
  readonly retryAfterMs: number | null
  /** How long to delay an allowed call. */
  readonly delayMs: number
  /** Ids of the shadow rules (and `<id>:candidate`) that would have refused. */
  readonly shadow: readonly string[]
  readonly source: Source
  /** Only if the rule set has priorities: that of the call. */
  readonly priority?: string
  /** Only if the store did not decide: the age in milliseconds of the state that was used. */
  readonly staleMs?: number
  /** On request: what the decision charged, so that it can be refunded. */
  readonly receipt?: string
  /** On request: every rule, with its limits or the reason it did not match. */
  readonly explain?: readonly RuleExplanation[]
  /** Only if the store did not answer: the rules decided by posture, and their postures. */
  readonly postures?: Postures
  /**
   * Only if the call holds places of a limit of concurrency: gives them back. To be called when the
   * call has ended; a second time it does nothing. Not part of the JSON form.
   */
  readonly release?: () => void
  /** Every enforced limit, for headers; not part of the JSON form. */
  policies(): readonly Policy[]
  /** The value of `RateLimit-Policy`; empty if no enforced limit matched. */
  policyField(): string
  /**
   * The value of `RateLimit`. `t` is the reset of an admission and the retry of a refusal. For a
   * refused call, limits that did not refuse have no `t`: it could be later than `Retry-After`,
   * which the draft forbids.
   */
  leftField(jitterMs: number): string
  /**
   * Visits every matching rule, and `<id>:candidate`, with its outcome; `''` if none matched.
   * Includes only those shadow rules and candidates that judged the call. For metrics.
   */
  eachRule(visit: (rule: string, outcome: RuleOutcome) => void): void
  /**
   * Visits every matching rule, without candidates, with its caller and the smallest share left of
   * its limits. The share is -1 if it is unknown: for rules in shadow, rules decided by posture,
   * rules that were not evaluated, and rules with a limit of capacity 0. Includes only those shadow
   * rules that judged the call. For statistics.
   */
  eachCaller(visit: CallerVisit): void
  /** The caller of the binding rule; undefined if there is none. For logs. */
  bound(): BindingCaller | undefined
  /**
   * Each shadow rule and candidate that would have refused, with the caller. For logs and
   * statistics.
   */
  shadowRefusals(): readonly ShadowRefusal[]
  /** Ids of the shadow rules with `tag: true` that would have refused. */
  tags(): readonly string[]
  /**
   * Visits every rule decided by posture because the store did not answer. For metrics and logs.
   */
  degraded(visit: (rule: string, posture: PostureName) => void): void
  /**
   * Visits every rule with `onRefusal: overdraw` that could not count all units of the call,
   * because its debt was exhausted; once for each limit. For metrics.
   */
  dropped(visit: (rule: string, units: number) => void): void
}

/**
 * `by` names the attributes that make the caller; `cost` is how the rule counts a call, see
 * `amountOf`, and 0 for a gate. `call` is the normalized call, and `resetAfterMs` the time until
 * all exhausted limits are full again, 0 if none is exhausted.
 */
export type CallerVisit = (
  rule: string,
  by: readonly string[],
  caller: Hash64,
  outcome: RuleOutcome,
  left: number,
  cost: Cost,
  call: NormalizedCall,
  resetAfterMs: number,
) => void

const NO_IDS: readonly string[] = []
const NO_POLICY: readonly Policy[] = []
const NO_EXTRAS: DecisionExtras = {}
const LEFT_UNKNOWN = -1
/** Callers that were shed come back within these seconds, and not all at once. */
const SHED_RETRY_MS_MIN = 1000
const SHED_RETRY_SECONDS = 5

/** Returns when to retry a shed call, 1 to 5 s; `fraction` is a random number from 0 to 1. */
export function shedRetryMs(fraction: number): number {
  const seconds = Math.min(SHED_RETRY_SECONDS - 1, Math.floor(fraction * SHED_RETRY_SECONDS))
  return SHED_RETRY_MS_MIN + seconds * 1000
}

/** The decision of a call that no rule matches. */
export const UNMATCHED: Decision = Object.freeze({
  allowed: true,
  reason: 'unmatched',
  rule: null,
  limitName: null,
  limit: null,
  remaining: null,
  resetAfterMs: null,
  retryAfterMs: 0,
  delayMs: 0,
  shadow: NO_IDS,
  source: 'store',
  policies: () => NO_POLICY,
  policyField: () => '',
  leftField: () => '',
  eachRule: (visit) => visit('', 'allowed'),
  eachCaller: () => {},
  bound: () => undefined,
  shadowRefusals: () => NO_SHADOW_REFUSALS.list(),
  tags: () => NO_IDS,
  degraded: () => {},
  dropped: () => {},
} satisfies Decision)

/** The same, with the priority of the call if the rule set has priorities. */
export function unmatchedDecision({ priority }: NormalizedCall): Decision {
  return priority === undefined ? UNMATCHED : { ...UNMATCHED, priority: priority.name }
}

/** The decision of a call that a busy process sheds before its rules: it charges nothing. */
export function shedDecision(priority: string | undefined, retryAfterMs: number): Decision {
  return {
    ...UNMATCHED,
    allowed: false,
    reason: 'shed',
    retryAfterMs,
    source: 'local',
    ...(priority !== undefined && { priority }),
    eachRule: (visit) => visit('', 'refused'),
  }
}

/** Describes a limit and the outcome of its counter. */
export function policyOf(
  { compiled: { rule, policy, limit } }: PlannedTake,
  outcome: Outcome,
): Policy {
  return {
    name: policy,
    rule,
    limitName: limit.name,
    ...moduleChoiceOf(limit),
    limit: limit.capacity,
    windowMs: limit.windowMs,
    remaining: outcome.remaining,
    resetAfterMs: outcome.resetAfterMs,
    retryAfterMs: outcome.retryAfterMs,
  }
}

class CombinedDecision implements Decision {
  readonly allowed: boolean
  readonly reason: Reason
  readonly rule: string | null
  readonly limitName: string | null
  readonly limit: number | null
  readonly remaining: number | null
  readonly resetAfterMs: number | null
  readonly retryAfterMs: number | null
  readonly delayMs: number
  readonly shadow: readonly string[]
  readonly source: Source
  declare readonly priority?: string
  declare readonly staleMs?: number
  declare readonly receipt?: string
  declare readonly explain?: readonly RuleExplanation[]
  declare readonly postures?: Postures
  declare readonly release?: () => void
  readonly #plan: Plan
  readonly #takes: readonly PlannedTake[]
  readonly #outcomes: readonly Outcome[]
  /** The shadow rules and candidates that judged the call, and those that would have refused. */
  readonly #judged: readonly string[]
  readonly #refused: ShadowRefusals

  constructor(
    plan: Plan,
    takes: readonly PlannedTake[],
    outcomes: readonly FoldedOutcome[],
    judged: readonly string[],
    refused: ShadowRefusals,
    source: Source,
    extras: DecisionExtras,
  ) {
    const allowed = passes(outcomes)
    const binding = allowed ? tightest(takes, outcomes) : bindingRefusal(takes, outcomes)
    const outcome = outcomes[binding]
    const bound = takes[binding]?.compiled
    this.allowed = allowed
    this.rule = bound?.rule ?? null
    this.limitName = bound?.limit.name ?? null
    this.limit = bound?.limit.capacity ?? null
    this.remaining = outcome?.remaining ?? null
    this.resetAfterMs = outcome?.resetAfterMs ?? null
    this.retryAfterMs = outcome === undefined ? 0 : outcome.retryAfterMs
    this.delayMs = allowed ? longestDelay(outcomes) : 0
    this.reason = allowed ? 'within' : refusalReason(outcome, takes[binding])
    if (this.reason === 'shed') this.retryAfterMs = extras.shedRetryMs ?? SHED_RETRY_MS_MIN
    this.shadow = refused.ids
    this.source = source
    const priority = plan.matched[0]?.view.priority
    if (priority !== undefined) this.priority = priority.name
    if (extras !== NO_EXTRAS) {
      const { receipt, explain, postures, reason, staleMs, release } = extras
      if (staleMs !== undefined) this.staleMs = Math.ceil(staleMs)
      if (receipt !== undefined) this.receipt = receipt
      if (explain !== undefined) this.explain = explain
      if (postures !== undefined) this.postures = postures
      if (reason !== undefined) this.reason = reason
      if (release !== undefined) this.release = release
    }
    this.#plan = plan
    this.#takes = takes
    this.#outcomes = outcomes
    this.#judged = judged
    this.#refused = refused
  }

  policies(): readonly Policy[] {
    return this.#takes.flatMap((take, index) => {
      const outcome = this.#outcomes[index]
      return outcome === undefined || take.compiled.sheds ? [] : policyOf(take, outcome)
    })
  }

  policyField(): string {
    const takes = this.#takes
    let field = takes[0]?.compiled.field ?? ''
    for (let i = 1; i < takes.length; i++) {
      const next = takes[i]?.compiled.field ?? ''
      if (next !== '') field += field === '' ? next : `, ${next}`
    }
    return field
  }

  leftField(jitterMs: number): string {
    const takes = this.#takes
    let field = ''
    for (let i = 0; i < takes.length; i++) {
      const outcome = this.#outcomes[i]
      const head = takes[i]?.compiled.leftField ?? ''
      if (outcome === undefined || head === '') continue
      if (field !== '') field += ', '
      field += `${head}${outcome.remaining}`
      const timeMs = this.allowed ? outcome.resetAfterMs : outcome.retryAfterMs
      if (timeMs === null || (!this.allowed && timeMs === 0)) continue
      field += `;t=${Math.ceil((timeMs + jitterMs) / 1000)}`
    }
    return field
  }

  eachRule(visit: (rule: string, outcome: RuleOutcome) => void): void {
    // Takes are in the order of their rules.
    let take = 0
    const { matched } = this.#plan
    for (let i = 0; i < matched.length; i++) {
      const match = matched[i]
      if (match === undefined) continue
      const { id, mode } = match.rule
      if (mode === 'shadow') this.visitShadow(id, visit)
      else {
        let hasRoom = true
        for (; this.#takes[take]?.compiled.rule === id; take++) {
          if (this.#outcomes[take]?.retryAfterMs !== 0) hasRoom = false
        }
        visit(id, hasRoom ? 'allowed' : 'refused')
      }
      if (match.candidate !== undefined) this.visitShadow(candidateId(id), visit)
    }
  }

  private visitShadow(id: string, visit: (rule: string, outcome: RuleOutcome) => void): void {
    if (!this.#judged.includes(id)) return
    visit(id, this.shadow.includes(id) ? 'shadow_refused' : 'allowed')
  }

  eachCaller(visit: CallerVisit): void {
    const isGate = isGated(this.#plan)
    let take = 0
    const { matched } = this.#plan
    for (let i = 0; i < matched.length; i++) {
      const match = matched[i]
      if (match === undefined) continue
      const { id, mode, by } = match.rule
      const cost = isGate ? 0 : match.rule.cost
      if (mode === 'shadow') {
        if (!this.#judged.includes(id)) continue
        const outcome = this.shadow.includes(id) ? 'shadow_refused' : 'allowed'
        visit(id, by, match.caller, outcome, LEFT_UNKNOWN, cost, match.view, 0)
        continue
      }
      let hasRoom = true
      // A refusal without the store lists only the limits that refuse; the others are unknown.
      const isKnown = match.limits.length === 0 || this.#takes[take]?.compiled.rule === id
      let left = isKnown ? 1 : LEFT_UNKNOWN
      let resetAfterMs = 0
      for (; this.#takes[take]?.compiled.rule === id; take++) {
        const outcome = this.#outcomes[take]
        if (outcome?.retryAfterMs !== 0) hasRoom = false
        // A limit of capacity 0 refuses every call, so its caller has not exhausted it.
        const isClosed = this.#takes[take]?.limit.capacity === 0
        const share = isClosed ? LEFT_UNKNOWN : shareLeft(this.#takes[take], outcome)
        if (share < left) left = share
        const resetMs = isClosed || share > 0 ? 0 : (outcome?.resetAfterMs ?? 0)
        if (resetMs > resetAfterMs) resetAfterMs = resetMs
      }
      // A decision by posture does not show what the counter has left. Own properties only: a rule
      // may be named `constructor`.
      const { postures } = this
      if (postures !== undefined && Object.hasOwn(postures, id)) left = LEFT_UNKNOWN
      const ruleOutcome = hasRoom ? 'allowed' : 'refused'
      visit(id, by, match.caller, ruleOutcome, left, cost, match.view, resetAfterMs)
    }
  }

  bound(): BindingCaller | undefined {
    const bound = this.#plan.matched.find(({ rule }) => rule.id === this.rule)
    if (bound === undefined) return undefined
    const { rule, caller, view } = bound
    return { rule: rule.id, by: rule.by, caller: formatHash(caller), call: view }
  }

  shadowRefusals(): readonly ShadowRefusal[] {
    return this.#refused.list()
  }

  tags(): readonly string[] {
    if (this.shadow.length === 0) return NO_IDS
    const tagged = this.#plan.matched.filter(({ rule }) => rule.rule.tag && rule.mode === 'shadow')
    return tagged.map(({ rule }) => rule.id).filter((id) => this.shadow.includes(id))
  }

  degraded(visit: (rule: string, posture: PostureName) => void): void {
    if (this.postures === undefined) return
    for (const [rule, posture] of Object.entries(this.postures)) visit(rule, posture)
  }

  dropped(visit: (rule: string, units: number) => void): void {
    // Only the store charges, so only it can drop something.
    if (this.source !== 'store') return
    for (let i = 0; i < this.#takes.length; i++) {
      const take = this.#takes[i]
      if (take?.overdraw !== true) continue
      const units = take.amount - (this.#outcomes[i]?.granted ?? take.amount)
      if (units > 0) visit(take.compiled.rule, units)
    }
  }
}

function refusalReason(outcome: FoldedOutcome | undefined, bound: PlannedTake | undefined): Reason {
  // A gate has no cost: only a limit that refuses every call never lets it pass.
  if (outcome?.retryAfterMs === null && bound?.gate !== true) return 'cost_exceeds_limit'
  if (bound?.compiled.sheds === true) return 'shed'
  return outcome?.isBlocked === true ? 'blocked' : 'over'
}

/** Makes one decision from the outcomes of all groups; only the first group can refuse. */
export function combine(
  plan: Plan,
  outcomes: readonly (readonly ShadowOutcome[])[],
  source: Source,
  extras: DecisionExtras = NO_EXTRAS,
): Decision {
  const enforced = plan.groups[0]
  const enforcedOutcomes = outcomes[0]
  if (enforced === undefined || enforcedOutcomes === undefined) return UNMATCHED
  const judged = judgedIds(plan, outcomes)
  const refused = shadowRefusalsOf(plan, outcomes, judged)
  const folded = foldBlocks(enforced, enforcedOutcomes)
  return new CombinedDecision(plan, folded.takes, folded.outcomes, judged, refused, source, extras)
}

/** Whether a call only passed through gates: all of its takes are of one kind. */
function isGated({ groups }: Plan): boolean {
  for (let g = 0; g < groups.length; g++) {
    const first = groups[g]?.[0]
    if (first !== undefined) return first.gate === true
  }
  return false
}
