/**
 * One call, asked of a store that may be slow or gone: first of what is known to refuse it, then of
 * the store, and where that is silent of the rules' postures. What the store says afterwards is
 * settled here too, so that nothing granted to a refused call stays taken, and nothing admitted is
 * taken twice.
 */
import {
  type CounterKey,
  type Decision,
  type Extras,
  type Outcome,
  type Plan,
  type PlannedTake,
  passes,
  type Snapshot,
  type Source,
  SluiceError,
} from '@sluice/core'
import { Asked, type AskOptions } from './asked.js'
import { DenyCache } from './deny-cache.js'
import { isHedged, LastStates, patienceMs } from './hedge.js'
import {
  answerAt,
  type PostureAnswer,
  PostureAnswers,
  type Spending,
} from './posture/posture-answers.js'
import { Reports } from './reports.js'
import type { Answer, Give, Groups, Store } from './store.js'

/** How a decision is made of outcomes; the limiter knows of receipts. */
export type Tell = (
  plan: Plan,
  outcomes: Groups<Outcome>,
  options: AskOptions,
  source: Source,
  extras?: Extras,
) => Decision

export interface AskerParts {
  readonly store: Store
  readonly tell: Tell
  /** The wall clock, for a store that has none of its own. */
  readonly wallUs: () => number
  /** A clock that never steps. */
  readonly monotonicMs: () => number
  /** The most counters kept here while the store is silent. */
  readonly localCounters: number
}

export interface AskerStats {
  /** Counters of this process, of callers that were decided by posture. */
  readonly localCounters: number
  /** Counters whose spending here is still to be charged to the store. */
  readonly reportsWaiting: number
  /** Units spent here that will not be charged. */
  readonly reportsDropped: number
  /** Give-backs that the store did not confirm: those units may stay taken until they decay. */
  readonly givesLost: number
}

/** What was read, and who answered. */
export type Looked = Pick<PostureAnswer, 'outcomes' | 'source' | 'extras'>

/** What a store without a default of its own may take, in milliseconds. */
const DEADLINE_MS = 20

export class Asker {
  readonly #store: Store
  readonly #tell: Tell
  readonly #monotonicMs: () => number
  readonly #time: () => number
  readonly #deadlineMs: number
  readonly #denied: DenyCache | undefined
  readonly #states = new LastStates()
  readonly #posture: PostureAnswers
  readonly #reports: Reports
  readonly #onLate = (asked: Asked, answers: Groups<Answer>) => this.late(asked, answers)
  #givesLost = 0
  #resets = 0

  constructor({ store, tell, wallUs, monotonicMs, localCounters }: AskerParts) {
    const { remote } = store
    this.#store = store
    this.#tell = tell
    this.#monotonicMs = monotonicMs
    this.#time = remote === undefined ? wallUs : () => wholeOr(remote.time(), wallUs)
    this.#deadlineMs = remote?.deadlineMs ?? DEADLINE_MS
    this.#posture = new PostureAnswers({
      maxCounters: localCounters,
      time: this.#time,
      fleetSize: () => remote?.fleetSize() ?? 1,
    })
    this.#reports = new Reports(store, this.#time)
    if (remote === undefined) return
    const { denyCacheMs } = remote
    if (denyCacheMs > 0) this.#denied = new DenyCache(denyCacheMs, () => remote.latestTime())
    remote.onGivenBack?.((key) => this.gaveBack(key))
    remote.onAnswering(() => {
      this.#reports.isAnswering = true
      this.#reports.flush()
    })
  }

  get stats(): AskerStats {
    return {
      localCounters: this.#posture.size,
      reportsWaiting: this.#reports.waiting,
      reportsDropped: this.#reports.dropped,
      givesLost: this.#givesLost,
    }
  }

  /** By the clock that never steps. */
  nowMs(): number {
    return this.#monotonicMs()
  }

  /** Decides a call that has waited already; at once where nothing has to be asked. */
  ask(
    plan: Plan,
    needs: Snapshot['needs'],
    options: AskOptions,
    waitedMs = 0,
  ): Decision | Promise<Decision> {
    if (plan.groups.length === 1 && plan.groups[0]?.length === 0) {
      return this.#tell(plan, NOTHING, options, 'store')
    }
    const cache = this.#denied
    const nowMs = cache === undefined ? 0 : this.#monotonicMs()
    const denied = cache?.answer(plan, nowMs)
    if (denied !== undefined) return denied
    const fullMs = needs.deadline ? ownDeadline(plan) : undefined
    const deadlineMs = waitedMs > 0 ? leftOf(fullMs ?? this.#deadlineMs, waitedMs) : fullMs
    const hedged = needs.hedge && isHedged(plan)
    const moment = cache?.moment ?? 0
    const asked = new Asked(plan, options, nowMs, moment, deadlineMs, hedged, this.#onLate)
    if (hedged) return this.askHedged(asked)
    return this.take(asked).then(
      (answers) => this.answered(asked, answers),
      (error) => this.failed(asked, error),
    )
  }

  /** What is left of the counters of a call, or what the postures say of them; takes nothing. */
  async peek(plan: Plan): Promise<Looked> {
    try {
      return { outcomes: await this.#store.peek(plan.groups), source: 'store', extras: {} }
    } catch (error) {
      if (isMisuse(error)) throw error
      return this.#posture.peek(plan)
    }
  }

  /** How long a call may wait. */
  deadlineOf(plan: Plan): number {
    return ownDeadline(plan) ?? this.#deadlineMs
  }

  /** Decides a call without the store, because the names of its counters are not known. */
  withoutStore(plan: Plan, options: AskOptions): Decision {
    const { outcomes, source, extras } = this.#posture.take(plan, undefined)
    return this.#tell(plan, outcomes, options, source, extras)
  }

  /** The same for what would only be read. */
  peekWithoutStore(plan: Plan): Looked {
    return this.#posture.peek(plan)
  }

  /** Something was given back: what is known here of the counter is old. */
  gaveBack(key: CounterKey): void {
    this.#denied?.forget(key, this.#monotonicMs())
  }

  /** The counter was reset: nothing of it stays here either. */
  wasReset(key: CounterKey): void {
    this.gaveBack(key)
    this.#resets += 1
    this.#states.forget(key)
    this.#posture.forget(key)
    this.#reports.forget(key)
  }

  /** Other rules are in force: a refusal by the old ones says nothing. */
  rulesChanged(): void {
    this.#denied?.clear()
  }

  close(): void {
    this.#reports.close()
  }

  private take(asked: Asked): Promise<Groups<Answer>> {
    try {
      return this.#store.take(asked.plan.groups, asked)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Decides by the store's answer, or by what is known if that takes too long. */
  private askHedged(asked: Asked): Promise<Decision> {
    const resets = this.#resets
    return new Promise((resolve, reject) => {
      const attempt = (decide: () => Decision | undefined) => {
        try {
          const decision = decide()
          if (decision !== undefined) resolve(decision)
        } catch (error) {
          reject(error)
        }
      }
      const hurryMs = patienceMs(asked.deadlineMs ?? this.#deadlineMs)
      const timer = setTimeout(() => attempt(() => this.fromLastStates(asked)), hurryMs)
      void this.take(asked).then(
        (answers) => {
          clearTimeout(timer)
          attempt(() => {
            // What was read before a reset may be of one of its counters.
            if (resets === this.#resets) this.#states.learn(asked.plan, answers, this.#time())
            return this.answeredHedged(asked, answers)
          })
        },
        (error) => {
          clearTimeout(timer)
          attempt(() => (asked.isDecided ? undefined : this.failed(asked, error)))
        },
      )
    })
  }

  private answeredHedged(asked: Asked, answers: Groups<Answer>): Decision | undefined {
    if (!asked.isDecided) return this.answered(asked, answers)
    this.settle(asked, answers)
    return undefined
  }

  private fromLastStates(asked: Asked): Decision | undefined {
    const { plan, options } = asked
    const now = this.#time()
    const steps = this.#states.take(plan, now)
    if (steps === undefined) return undefined
    const allowed = passes(steps)
    const spendings = (plan.groups[0] ?? []).map((take, i) =>
      take.amount > 0 ? { take, share: undefined, at: steps[i]?.at ?? now } : undefined,
    )
    asked.decide(undefined, allowed, allowed ? spendings : [])
    // The store has not granted it yet, so there is nothing that a receipt could give back.
    const outcomes = [steps.map((step) => ({ ...step, granted: 0 }))]
    const shadows = plan.groups.slice(1).map(() => [])
    return this.#tell(plan, [...outcomes, ...shadows], options, 'local')
  }

  private answered(asked: Asked, answers: Groups<Answer>): Decision {
    const { plan } = asked
    if (!isWhole(plan, answers)) return this.degrade(asked, answers)
    if (!this.#reports.isAnswering) this.#reports.isAnswering = true
    const [outcomes = []] = answers
    if (!passes(outcomes)) this.#denied?.remember(plan.groups[0] ?? [], outcomes, asked)
    return this.#tell(plan, answers, asked.options, 'store')
  }

  /** A store that fails says nothing of what became of the call; one that is misused says so. */
  private failed(asked: Asked, error: unknown): Decision {
    if (isMisuse(error)) throw error
    return this.degrade(asked, undefined)
  }

  /** Where the store was silent, or in part: each rule by its posture. */
  private degrade(asked: Asked, answers: Groups<Answer> | undefined): Decision {
    const { plan, options } = asked
    const { allowed, outcomes, source, extras, spendings } = this.#posture.take(plan, answers)
    const early = asked.decide(answers, allowed, spendings)
    this.#reports.isAnswering = false
    if (answers !== undefined) {
      this.#denied?.remember(plan.groups[0] ?? [], answers[0] ?? [], asked)
      if (!allowed) this.giveBackAll(plan, answers)
    }
    for (const [i, spending] of spendings.entries()) {
      if (answerAt(answers, 0, i) === 'not-run') this.report(spending)
    }
    if (early !== undefined) this.settle(asked, early)
    return this.#tell(plan, outcomes, options, source, extras)
  }

  /** The store's last word on a call that did not wait for it. */
  private late(asked: Asked, answers: Groups<Answer>): void {
    if (asked.takeLate(answers)) this.settle(asked, answers)
  }

  /** Goes by each take whose fate was not known until now. */
  private settle(asked: Asked, answers: Groups<Answer>): void {
    const { plan, allowed, spendings } = asked
    const before = asked.answers
    asked.answers = answers
    for (const [g, takes] of plan.groups.entries()) {
      for (const [i, take] of takes.entries()) {
        if (answerAt(before, g, i) !== 'unknown') continue
        const answer = answerAt(answers, g, i)
        if (!allowed) this.giveBack(take, answer, g)
        else if (g === 0) this.settleSpending(spendings[i], answer)
      }
    }
  }

  private settleSpending(spending: Spending | undefined, answer: Answer): void {
    if (spending === undefined || answer === 'unknown') return
    if (answer === 'not-run') this.report(spending)
    else if (answer.granted > 0) this.#posture.strike(spending)
    else if (answer.remaining > 0) this.report(spending)
  }

  private report(spending: Spending | undefined): void {
    if (spending === undefined) return
    const { key, limit, amount } = spending.take
    this.#reports.add(key, limit, amount, spending.at)
  }

  private giveBackAll(plan: Plan, answers: Groups<Answer>): void {
    for (const [g, takes] of plan.groups.entries()) {
      for (const [i, take] of takes.entries()) this.giveBack(take, answerAt(answers, g, i), g)
    }
  }

  /**
   * What was granted to a call that is refused. A limit that charges for refusals keeps it, but not
   * in a shadow group, which a refused call never opens.
   */
  private giveBack({ key, limit }: PlannedTake, answer: Answer, group: number): void {
    if (typeof answer === 'string' || answer.granted === 0) return
    if (group === 0 && limit.onRefusal === 'charge') return
    void this.give({ key, limit, amount: answer.granted, at: answer.at })
  }

  /** Tried once: what may have been given back must not be given twice. */
  private async give(give: Give): Promise<void> {
    this.gaveBack(give.key)
    try {
      await this.#store.give(give)
    } catch {
      this.#givesLost += 1
    }
    this.gaveBack(give.key)
  }
}

const NOTHING: Groups<Outcome> = [[]]

/** A store that never answered may not know its time. */
function wholeOr(time: number, wallUs: () => number): number {
  return Number.isFinite(time) ? Math.floor(time) : wallUs()
}

/** In whole milliseconds, or there would be as many deadlines as calls. */
function leftOf(deadlineMs: number, waitedMs: number): number {
  return Math.max(1, Math.ceil(deadlineMs - waitedMs))
}

function isMisuse(error: unknown): boolean {
  return error instanceof SluiceError && error.code !== 'STORE_FAILED'
}

/** The shortest deadline of its enforced rules that have one. */
function ownDeadline({ matched }: Plan): number | undefined {
  let shortest: number | undefined
  for (let i = 0; i < matched.length; i++) {
    const rule = matched[i]?.rule
    const own = rule?.mode === 'enforce' ? rule.rule.deadlineMs : undefined
    if (own !== undefined && (shortest === undefined || own < shortest)) shortest = own
  }
  return shortest
}

/** Whether every take has an outcome. */
function isWhole(plan: Plan, answers: Groups<Answer>): answers is Groups<Exclude<Answer, string>> {
  const { groups } = plan
  for (let g = 0; g < groups.length; g++) {
    const answer = answers[g]
    const takes = groups[g]
    if (answer === undefined || takes === undefined) return false
    for (let i = 0; i < takes.length; i++) if (typeof answer[i] !== 'object') return false
  }
  return true
}
