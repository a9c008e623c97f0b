/** What all limits of a call say together. */
import type { Outcome } from '../algorithms/algorithm.js'
import type { AlgorithmName } from '../algorithms/index.js'
import type { NormalizedCall } from '../matching/call-view.js'
import type { MatchedRule } from '../matching/match.js'
import type { Cost } from '../rules/rule.js'
import { formatHash, type Hash64 } from '../sip-hash.js'
import type { RuleExplanation } from './explain-rules.js'
import { longestDelay, longestWait, passes, shareLeft, tightest } from './outcomes.js'
import { candidateId, type Plan, type PlannedTake } from './plan.js'
import {
  judgedIds,
  NO_SHADOW_REFUSALS,
  shadowRefusalsOf,
  type ShadowOutcome,
  type ShadowRefusal,
  type ShadowRefusals,
} from './shadow-refusals.js'

export type Reason = 'within' | 'over' | 'cost_exceeds_limit' | 'unmatched' | 'posture'
/** What one rule that matched said, whatever became of the call. */
export type RuleOutcome = 'allowed' | 'refused' | 'shadow_refused'
export type Source = 'store' | 'lease' | 'local' | 'deny-cache' | 'posture'
/** What answered for a rule whose store was silent. */
export type PostureName = 'open' | 'closed' | 'local'
/** The rules that answered by their posture. */
export type Postures = Readonly<Record<string, PostureName>>

/** One enforced limit as headers and problem bodies show it. */
export interface Policy {
  readonly name: string
  readonly rule: string
  readonly limitName: string
  readonly algorithm: AlgorithmName
  readonly limit: number
  readonly windowMs: number
  readonly remaining: number
  readonly resetAfterMs: number
  /** 0: it had room. Null: it never will. */
  readonly retryAfterMs: number | null
  /** Only of `limits`, and of a rule that counts by `route`: whose counter it is. */
  readonly route?: string
}

/** Whom a decision is about: the caller that its binding rule counts. */
export interface BindingCaller {
  readonly rule: string
  readonly by: readonly string[]
  /** The hash that stands for the caller in keys and logs. */
  readonly caller: string
  /** The call as the rule saw it. */
  readonly call: NormalizedCall
}

/** What was asked for beside the decision itself. */
export interface DecisionExtras {
  readonly receipt?: string | undefined
  readonly explain?: readonly RuleExplanation[] | undefined
  /** The rules whose store was silent. */
  readonly postures?: Postures | undefined
  /** Instead of the reason that follows from the outcomes. */
  readonly reason?: Reason | undefined
  /** How long ago the store said what the decision was made from. */
  readonly staleMs?: number | undefined
}

export interface Decision {
  readonly allowed: boolean
  readonly reason: Reason
  /** The rule and limit that bind: the longest wait of a refusal, else the smallest share left. */
  readonly rule: string | null
  readonly limitName: string | null
  readonly limit: number | null
  readonly remaining: number | null
  readonly resetAfterMs: number | null
  /** 0 when allowed; else the longest wait of the refusing limits. Null: waiting does not help. */
  readonly retryAfterMs: number | null
  /** Allowed, but to be held this long. */
  readonly delayMs: number
  /** Ids of the shadow rules (and `<id>:candidate`) that would have refused. */
  readonly shadow: readonly string[]
  readonly source: Source
  /** Only where it was not the store: how old what it was made from is, in milliseconds. */
  readonly staleMs?: number
  /** On request: what the decision took, so that it can be given back. */
  readonly receipt?: string
  /** On request: every rule, with its limits or why it did not match. */
  readonly explain?: readonly RuleExplanation[]
  /** Only where the store was silent: the rules that answered by their posture, and which. */
  readonly postures?: Postures
  /** Every enforced limit, for headers; not part of the JSON form. */
  policies(): readonly Policy[]
  /** The value of `RateLimit-Policy`; empty where no enforced limit spoke. */
  policyField(): string
  /**
   * The value of `RateLimit`. `t` is the reset of an admission and the retry of a refusal. A limit
   * that did not refuse a refused call tells no time: it would outlast `Retry-After`, which the
   * draft forbids.
   */
  leftField(jitterMs: number): string
  /**
   * Every rule that matched, and `<id>:candidate`, with what it said; `''` where none did. Of rules
   * in shadow and candidates only those that judged the call. For metrics.
   */
  eachRule(visit: (rule: string, outcome: RuleOutcome) => void): void
  /**
   * Every rule that matched, without candidates, with the caller that it counts and the smallest
   * share left of its limits; -1 where it is not known, as of rules in shadow, that answered by
   * their posture, that were not asked, or with a limit that holds nothing. Of rules in shadow only
   * those that judged the call. For statistics.
   */
  eachCaller(visit: CallerVisit): void
  /** The caller of the rule that binds; undefined where none does. For logs. */
  bound(): BindingCaller | undefined
  /** Each rule in shadow and candidate that would have refused, and whom. For logs, statistics. */
  shadowRefusals(): readonly ShadowRefusal[]
  /** Ids of the shadow rules with `tag: true` that would have refused. */
  tags(): readonly string[]
  /** Every rule that answered by its posture, because the store did not. For metrics and logs. */
  degraded(visit: (rule: string, posture: PostureName) => void): void
}

/**
 * `by` names the attributes that make the caller; `cost` is how the rule counts a call, see
 * `amountOf`. `call` is the call as the rule saw it, and `resetAfterMs` the time until all limits
 * with nothing left are whole again, 0 where none is at zero.
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

/** The decision of a call that no rule speaks of. */
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
} satisfies Decision)

/** A limit and what its counter said. */
export function policyOf(
  { compiled: { rule, policy, limit } }: PlannedTake,
  outcome: Outcome,
): Policy {
  return {
    name: policy,
    rule,
    limitName: limit.name,
    algorithm: limit.algorithm,
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
  declare readonly staleMs?: number
  declare readonly receipt?: string
  declare readonly explain?: readonly RuleExplanation[]
  declare readonly postures?: Postures
  readonly #matched: readonly MatchedRule[]
  readonly #takes: readonly PlannedTake[]
  readonly #outcomes: readonly Outcome[]
  /** Of rules in shadow and candidates: those that judged the call, and that would have refused. */
  readonly #judged: readonly string[]
  readonly #refused: ShadowRefusals

  constructor(
    matched: readonly MatchedRule[],
    takes: readonly PlannedTake[],
    outcomes: readonly Outcome[],
    judged: readonly string[],
    refused: ShadowRefusals,
    source: Source,
    extras: DecisionExtras,
  ) {
    const allowed = passes(outcomes)
    const binding = allowed ? tightest(takes, outcomes) : longestWait(outcomes)
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
    this.reason = allowed ? 'within' : this.retryAfterMs === null ? 'cost_exceeds_limit' : 'over'
    this.shadow = refused.ids
    this.source = source
    if (extras !== NO_EXTRAS) {
      const { receipt, explain, postures, reason, staleMs } = extras
      if (staleMs !== undefined) this.staleMs = Math.ceil(staleMs)
      if (receipt !== undefined) this.receipt = receipt
      if (explain !== undefined) this.explain = explain
      if (postures !== undefined) this.postures = postures
      if (reason !== undefined) this.reason = reason
    }
    this.#matched = matched
    this.#takes = takes
    this.#outcomes = outcomes
    this.#judged = judged
    this.#refused = refused
  }

  policies(): readonly Policy[] {
    return this.#takes.flatMap((take, index) => {
      const outcome = this.#outcomes[index]
      return outcome === undefined ? [] : policyOf(take, outcome)
    })
  }

  policyField(): string {
    const takes = this.#takes
    let field = takes[0]?.compiled.field ?? ''
    for (let i = 1; i < takes.length; i++) field += `, ${takes[i]?.compiled.field}`
    return field
  }

  leftField(jitterMs: number): string {
    const takes = this.#takes
    let field = ''
    for (let i = 0; i < takes.length; i++) {
      const outcome = this.#outcomes[i]
      if (outcome === undefined) continue
      if (i > 0) field += ', '
      field += `${takes[i]?.compiled.leftField}${outcome.remaining}`
      const timeMs = this.allowed ? outcome.resetAfterMs : outcome.retryAfterMs
      if (timeMs === null || (!this.allowed && timeMs === 0)) continue
      field += `;t=${Math.ceil((timeMs + jitterMs) / 1000)}`
    }
    return field
  }

  eachRule(visit: (rule: string, outcome: RuleOutcome) => void): void {
    // Takes stand in the order of the rules they are of.
    let take = 0
    for (let i = 0; i < this.#matched.length; i++) {
      const match = this.#matched[i]
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
    let take = 0
    for (let i = 0; i < this.#matched.length; i++) {
      const match = this.#matched[i]
      if (match === undefined) continue
      const { id, mode, by, cost } = match.rule
      if (mode === 'shadow') {
        if (!this.#judged.includes(id)) continue
        const outcome = this.shadow.includes(id) ? 'shadow_refused' : 'allowed'
        visit(id, by, match.caller, outcome, LEFT_UNKNOWN, cost, match.view, 0)
        continue
      }
      let hasRoom = true
      // A refusal without the store lists only the limits that refuse: of others nothing is known.
      const isKnown = match.limits.length === 0 || this.#takes[take]?.compiled.rule === id
      let left = isKnown ? 1 : LEFT_UNKNOWN
      let resetAfterMs = 0
      for (; this.#takes[take]?.compiled.rule === id; take++) {
        const outcome = this.#outcomes[take]
        if (outcome?.retryAfterMs !== 0) hasRoom = false
        // Whoever is refused everything has not used anything up.
        const isClosed = this.#takes[take]?.limit.capacity === 0
        const share = isClosed ? LEFT_UNKNOWN : shareLeft(this.#takes[take], outcome)
        if (share < left) left = share
        const resetMs = isClosed || share > 0 ? 0 : (outcome?.resetAfterMs ?? 0)
        if (resetMs > resetAfterMs) resetAfterMs = resetMs
      }
      // What a posture answered says nothing of what the counter has.
      // Its own alone: a rule may be called `constructor`.
      const { postures } = this
      if (postures !== undefined && Object.hasOwn(postures, id)) left = LEFT_UNKNOWN
      const ruleOutcome = hasRoom ? 'allowed' : 'refused'
      visit(id, by, match.caller, ruleOutcome, left, cost, match.view, resetAfterMs)
    }
  }

  bound(): BindingCaller | undefined {
    const bound = this.#matched.find(({ rule }) => rule.id === this.rule)
    if (bound === undefined) return undefined
    const { rule, caller, view } = bound
    return { rule: rule.id, by: rule.by, caller: formatHash(caller), call: view }
  }

  shadowRefusals(): readonly ShadowRefusal[] {
    return this.#refused.list()
  }

  tags(): readonly string[] {
    if (this.shadow.length === 0) return NO_IDS
    const tagged = this.#matched.filter(({ rule }) => rule.rule.tag && rule.mode === 'shadow')
    return tagged.map(({ rule }) => rule.id).filter((id) => this.shadow.includes(id))
  }

  degraded(visit: (rule: string, posture: PostureName) => void): void {
    if (this.postures === undefined) return
    for (const [rule, posture] of Object.entries(this.postures)) visit(rule, posture)
  }
}

/** One decision from the outcomes of all groups; the first group alone can refuse. */
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
  return new CombinedDecision(
    plan.matched,
    enforced,
    enforcedOutcomes,
    judged,
    refused,
    source,
    extras,
  )
}
