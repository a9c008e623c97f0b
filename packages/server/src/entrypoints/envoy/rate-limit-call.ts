/**
 * One request as the limiter decides it: the calls of its descriptors in one plan, and the answers
 * for each of them.
 */
import {
  type Call,
  type Decision,
  type DecisionExtras,
  isBlock,
  passes,
  type Plan,
  type PostureName,
  type Source,
  UNMATCHED,
} from '@sluice/core'
import type { Groups } from '@sluice/limiter'
import {
  type CallPlanner,
  combineSpread,
  type JoinedAnswer,
  JoinedPlan,
  type KnownOutcome,
} from '@sluice/limiter/internal'
import type { ReportedCalls } from '../../decide.js'
import { type MaskSecrets, UnmatchedCall } from './reported-call.js'
import { OVER_STATUS, type RequestDescriptor } from './request-descriptor.js'

const NO_SHADOWS: readonly string[] = []
const NO_DESCRIPTORS: readonly RequestDescriptor[] = []
const NO_ROW: readonly never[] = []
/** Of a request that takes from no counter. */
const NOTHING: Plan = { matched: [], groups: [[]], shadows: NO_SHADOWS }

/** A descriptor that is refused because it matches no limit, as metrics count it. */
const UNMATCHED_REFUSED: Decision = {
  ...UNMATCHED,
  allowed: false,
  retryAfterMs: null,
  eachRule: (visit) => visit('', 'refused'),
}

/** What all requests of a domain share. */
export interface RateLimitCallDeps {
  readonly domain: string
  /** Whether a descriptor that matches no limit is refused. */
  readonly requireMatch: boolean
  readonly mask: MaskSecrets
}

export abstract class RateLimitCall implements ReportedCalls {
  readonly descriptors: readonly RequestDescriptor[]
  protected readonly deps: RateLimitCallDeps
  /** Whether a descriptor is refused before any counter is read. */
  isBarred = false
  /** The decision of what the answer shows: it is allowed if the request is. */
  decision: Decision = UNMATCHED
  #planned: readonly RequestDescriptor[] = NO_DESCRIPTORS
  #plan: Plan = NOTHING
  #joined: JoinedPlan | undefined
  /** Whether no refusal concerns another limit: then all are counted, also those in shadow. */
  #countsAll = false

  constructor(deps: RateLimitCallDeps, descriptors: readonly RequestDescriptor[]) {
    this.deps = deps
    this.descriptors = descriptors
  }

  plan(planner: CallPlanner): Plan {
    const { descriptors } = this
    this.isBarred = false
    for (let i = 0; i < descriptors.length; i++) {
      const each = descriptors[i]
      if (each === undefined) continue
      each.plan = this.planOne(each, planner)
      if (each.kind === 'unmatched') this.judgeUnmatched(each)
      if (each.status === OVER_STATUS) this.isBarred = true
    }
    this.#planned = this.plannedOf(descriptors)
    this.#plan = this.join(this.#planned)
    return this.#plan
  }

  /** Mostly all of them, and then no list is made. */
  private plannedOf(descriptors: readonly RequestDescriptor[]): readonly RequestDescriptor[] {
    for (let i = 0; i < descriptors.length; i++) {
      const each = descriptors[i]
      if (each !== undefined && this.isPlanned(each)) continue
      return descriptors.filter((one) => this.isPlanned(one))
    }
    return descriptors
  }

  /** What counts first is counted whatever else is refused. */
  private isPlanned(each: RequestDescriptor): boolean {
    return each.plan !== undefined && (!this.isBarred || countsFirst(each))
  }

  compose(
    plan: Plan,
    outcomes: Groups<KnownOutcome>,
    source: Source,
    extras: DecisionExtras | undefined,
  ): Decision {
    const planned = this.#planned
    const isWhole = plan === this.#plan
    const isOpen = this.isOpen(plan, outcomes)
    for (let i = 0; i < planned.length; i++) {
      const each = planned[i]
      if (each === undefined) continue
      const answer = this.answerOf(i, plan, outcomes)
      const judged = isOpen || !isWhole ? answer : withoutShadows(answer)
      each.decision = decisionOf(judged, source, extras)
      this.settle(each, answer)
    }
    this.decision = this.shownDecision(plan, outcomes, source, extras)
    return this.decision
  }

  eachDecision(visit: (decision: Decision, call: Call) => void): void {
    for (let i = 0; i < this.descriptors.length; i++) {
      const each = this.descriptors[i]
      if (each?.decision !== undefined && each.call !== undefined) visit(each.decision, each.call)
    }
  }

  /** Makes the plan of one descriptor, which is called again if keys become known only later. */
  protected abstract planOne(descriptor: RequestDescriptor, planner: CallPlanner): Plan | undefined

  /** Makes the status of a descriptor of what is known of its limits. */
  protected abstract settle(descriptor: RequestDescriptor, answer: JoinedAnswer): void

  private judgeUnmatched(each: RequestDescriptor): void {
    const { domain, mask, requireMatch } = this.deps
    each.call ??= new UnmatchedCall(domain, each.descriptor.entries, each.hits, mask)
    each.decision ??= UNMATCHED
    // What gives units back asks for nothing, and is never refused.
    if (!requireMatch || each.isReturn) return
    each.decision = UNMATCHED_REFUSED
    each.status = OVER_STATUS
  }

  private answerOf(i: number, plan: Plan, outcomes: Groups<KnownOutcome>): JoinedAnswer {
    return this.#joined?.answerOf(i, plan, outcomes) ?? { plan, outcomes }
  }

  /** Whether no enforced limit that is no alternative refuses. */
  private isOpen(plan: Plan, outcomes: Groups<KnownOutcome>): boolean {
    if (!this.#countsAll) return passes(outcomes[0] ?? NO_ROW)
    return this.#planned.every(
      (each, i) =>
        each.isAlternative || passes(this.answerOf(i, plan, outcomes).outcomes[0] ?? NO_ROW),
    )
  }

  private join(planned: readonly RequestDescriptor[]): Plan {
    const first = planned[0]
    if (first?.plan === undefined) return NOTHING
    this.#joined = undefined
    this.#countsAll = false
    if (planned.length === 1) return first.plan
    const joined = new JoinedPlan()
    this.#countsAll = planned.some(isApart) && planned.every(countsFirst)
    const isCounted = this.#countsAll
    for (let i = 0; i < planned.length; i++) {
      const each = planned[i]
      if (each?.plan !== undefined) {
        joined.add(each.plan, { isAlternative: each.isAlternative, isCounted })
      }
    }
    this.#joined = joined
    return joined
  }

  /** Of alternatives it shows those that have room, or if none has, all of them. */
  private shownDecision(
    plan: Plan,
    outcomes: Groups<KnownOutcome>,
    source: Source,
    extras: DecisionExtras | undefined,
  ): Decision {
    const { matched, groups, alternatives } = plan
    const only = this.#joined === undefined ? this.#planned[0]?.decision : undefined
    if (only !== undefined) return only
    if (this.#countsAll && plan === this.#plan) {
      const answers = this.#planned.map((each, i) => {
        const { plan: own, outcomes: rows } = this.answerOf(i, plan, outcomes)
        const isAlternative = each.isAlternative
        return { isAlternative, group: own.groups[0] ?? NO_ROW, row: rows[0] ?? NO_ROW }
      })
      return combineShown(matched, answers, source, extras)
    }
    if (alternatives === undefined) return combineSpread(plan, outcomes, source, extras)
    const from = groups.length - alternatives
    const rows = [0, ...Array.from({ length: alternatives }, (_, i) => from + i)].map((g) => ({
      isAlternative: g > 0,
      group: groups[g] ?? NO_ROW,
      row: outcomes[g] ?? NO_ROW,
    }))
    return combineShown(matched, rows, source, extras)
  }
}

/** Whether a descriptor is counted first and compared then, whatever else is refused. */
function countsFirst({ isMetered, limit }: RequestDescriptor): boolean {
  return isMetered || limit?.countsFirst === true
}

/** Whether the limit of a configuration has a group of its own beside that of all others. */
function isApart({ isAlternative, limit, plan }: RequestDescriptor): boolean {
  return limit !== undefined && (isAlternative || (plan?.groups.length ?? 0) > 1)
}

interface ShownGroup {
  readonly isAlternative: boolean
  readonly group: Plan['groups'][number]
  readonly row: readonly KnownOutcome[]
}

/** Combines what is enforced: of alternatives those that have room, or if none has, all of them. */
function combineShown(
  matched: Plan['matched'],
  shown: readonly ShownGroup[],
  source: Source,
  extras: DecisionExtras | undefined,
): Decision {
  const isOver = shown.every(({ isAlternative, row }) => !isAlternative || !passes(row))
  const those = shown.filter(({ isAlternative, row }) => !isAlternative || isOver || passes(row))
  const takes = those.flatMap(({ group }) => group)
  const outcomes = those.flatMap(({ row }) => row)
  const plan = { matched, groups: [takes], shadows: NO_SHADOWS }
  return combineSpread(plan, [outcomes], source, extras)
}

/** The decision of one of the calls, with those postures only that are of its rules. */
function decisionOf(
  { plan, outcomes }: JoinedAnswer,
  source: Source,
  extras: DecisionExtras | undefined,
): Decision {
  const all = extras?.postures
  if (all === undefined) return combineSpread(plan, outcomes, source, extras)
  let postures: Record<string, PostureName> | undefined
  for (const { rule } of plan.matched) {
    const posture = Object.hasOwn(all, rule.id) ? all[rule.id] : undefined
    if (posture === undefined) continue
    postures ??= {}
    postures[rule.id] = posture
  }
  if (postures !== undefined) return combineSpread(plan, outcomes, source, { ...extras, postures })
  return combineSpread(plan, outcomes, source === 'posture' ? 'store' : source)
}

/** Rules in shadow judge no call that is refused, be it by another call of the request. */
function withoutShadows({ plan, outcomes }: JoinedAnswer): JoinedAnswer {
  if (plan.shadows.length === 0) return { plan, outcomes }
  return { plan, outcomes: outcomes.map((row, g) => (g === 0 ? row : NO_ROW)) }
}

/** The outcome that a status shows: that of the binding limit, or of a limit in shadow. */
export function shownOutcome(
  { plan, outcomes }: JoinedAnswer,
  decision: Decision | undefined,
): { readonly take: Plan['groups'][number][number]; readonly outcome: KnownOutcome } | undefined {
  const takes = plan.groups[0] ?? NO_ROW
  for (let i = 0; i < takes.length; i++) {
    const take = takes[i]
    const outcome = outcomes[0]?.[i]
    if (take === undefined || outcome === undefined || isBlock(take.limit)) continue
    const { rule, limit } = take.compiled
    if (rule === decision?.rule && limit.name === decision.limitName) return { take, outcome }
  }
  return undefined
}
