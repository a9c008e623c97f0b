/**
 * One call, asked of a store that may be slow or gone: first of what this node decides itself, then
 * of what is known to refuse it, then of the store, and where that is silent of the rules'
 * postures.
 */
import {
  type Coordination,
  type CounterKey,
  type Decision,
  type Extras,
  type Outcome,
  type Plan,
  type PlannedTake,
  passes,
  type Snapshot,
  type Source,
} from '@sluice/core'
import { Asked, type AskOptions, LEARNING, NO_SHARE, type Share } from './asked.js'
import type { AskerParts, AskerStats, Looked, Tell } from './asker-types.js'
import {
  Coordinator,
  needsStates,
  onlySource,
  overlay,
  placing,
} from './coordination/coordinator.js'
import type { SplitCall } from './coordination/split-call.js'
import { DEFAULT_DEADLINE_MS, leftOf, ownDeadline } from './deadline.js'
import { DenyCache } from './deny-cache.js'
import { isHedged, LastStates, patienceMs } from './hedge.js'
import { PostureAnswers } from './posture/posture-answers.js'
import { Reports } from './reports.js'
import { Settlement } from './settlement.js'
import { emptyAnswer, isEmpty, isMisuse, isWhole } from './store-answer.js'
import type { Answer, Give, Groups, Peeked, PeekOptions, Store } from './store.js'

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
  readonly #settlement: Settlement
  readonly #coordinator: Coordinator
  readonly #onLate = (asked: Asked, answers: Groups<Answer>) => this.late(asked, answers)
  #resets = 0

  constructor({ store, tell, wallUs, monotonicMs, localCounters, scheduler }: AskerParts) {
    const { remote } = store
    const gaveBack = (key: CounterKey) => this.gaveBack(key)
    this.#store = store
    this.#tell = tell
    this.#monotonicMs = monotonicMs
    this.#time = remote === undefined ? wallUs : () => wholeOr(remote.time(), wallUs)
    this.#deadlineMs = remote?.deadlineMs ?? DEFAULT_DEADLINE_MS
    const placeAt = placing(remote, this.#time)
    this.#posture = new PostureAnswers({
      maxCounters: localCounters,
      time: this.#time,
      placeAt,
      fleetSize: () => remote?.fleetSize() ?? 1,
    })
    this.#reports = new Reports(store, this.#time, scheduler)
    const strike = this.#posture.strike.bind(this.#posture)
    const returned = (key: CounterKey) => this.returned(key)
    this.#settlement = new Settlement({ store, reports: this.#reports, strike, gaveBack, returned })
    this.#coordinator = new Coordinator({
      store,
      scheduler,
      monotonicMs,
      wallUs,
      placeAt,
      fleetSize: () => remote?.fleetSize() ?? 1,
      fleetPlace: () => remote?.fleetPlace?.() ?? 0,
      deadlineMs: this.#deadlineMs,
      gaveBack,
      answering: () => {
        this.#reports.isAnswering = true
      },
      isAnswering: () => this.#reports.isAnswering,
    })
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
      givesLost: this.#settlement.givesLost,
      coordination: this.#coordinator.stats,
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
    if (isEmpty(plan.groups)) return this.#tell(plan, emptyAnswer(plan.groups), options, 'store')
    if (needs.coordination) return this.askHere(plan, needs, options, waitedMs)
    return this.askStore(plan, needs, options, waitedMs, NO_SHARE)
  }

  /** What is left of the counters of a call, or what the postures say of them; takes nothing. */
  async peek(plan: Plan, options?: PeekOptions): Promise<Looked> {
    const here = this.#coordinator.look(plan)
    if (here?.whole !== undefined) {
      const { whole, source, staleMs } = here
      return { outcomes: whole, source, extras: { staleMs } }
    }
    try {
      const outcomes = await this.#store.peek(plan.groups, options)
      return { outcomes: overlay(here, outcomes), source: 'store', extras: {} }
    } catch (error) {
      if (isMisuse(error)) throw error
      return this.#posture.peek(plan)
    }
  }

  /** What this node itself counts of a limit. */
  lookHere(take: PlannedTake): Peeked | undefined {
    return this.#coordinator.lookAt(take)
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
    this.#states.forget(key)
    this.#coordinator.gaveBack(key)
  }

  /** The same after it was done, so that other nodes are to know it too. */
  returned(key: CounterKey): void {
    this.gaveBack(key)
    this.#store.remote?.announce?.(key)
  }

  /** The counter was reset: nothing of it stays here either. */
  wasReset(key: CounterKey): void {
    this.returned(key)
    this.#resets += 1
    this.#coordinator.forget(key)
    this.#posture.forget(key)
    this.#reports.forget(key)
  }

  /** Other rules are in force: a refusal by the old ones says nothing. */
  rulesChanged(): void {
    this.#denied?.clear()
  }

  /** Whether units of an earlier decision were returned on this node; else the store has them. */
  refundHere(give: Give, coordination: Coordination): boolean {
    return this.#coordinator.refund(give, coordination)
  }

  /** What this node holds of the store's goes back before nobody can give it. */
  async close(): Promise<void> {
    this.#reports.close()
    await this.#coordinator.close()
  }

  /** The store, and what is known of it, for all of a call or for what was not decided here. */
  private askStore(
    plan: Plan,
    needs: Snapshot['needs'],
    options: AskOptions,
    waitedMs: number,
    share: Share,
  ): Decision | Promise<Decision> {
    const cache = this.#denied
    const nowMs = cache === undefined && !share.learns ? 0 : this.#monotonicMs()
    const denied = cache?.answer(plan, nowMs)
    if (denied !== undefined) {
      share.split?.putBack()
      return denied
    }
    const fullMs = needs.deadline ? ownDeadline(plan) : undefined
    const deadlineMs = waitedMs > 0 ? leftOf(fullMs ?? this.#deadlineMs, waitedMs) : fullMs
    const hedged = needs.hedge && isHedged(plan)
    const moment = cache?.moment ?? 0
    const states = hedged || (share.learns && needsStates(plan))
    const asked = new Asked(plan, options, nowMs, moment, deadlineMs, states, this.#onLate, share)
    if (hedged) return this.askHedged(asked)
    return this.take(asked).then(
      (answers) => this.answered(asked, answers),
      (error) => this.failed(asked, error),
    )
  }

  /** First of what this node decides itself. */
  private askHere(
    plan: Plan,
    needs: Snapshot['needs'],
    options: AskOptions,
    waitedMs: number,
  ): Decision | Promise<Decision> {
    const ownMs = needs.deadline ? ownDeadline(plan) : undefined
    const begun = this.#coordinator.begin(plan, leftOf(ownMs ?? this.#deadlineMs, waitedMs))
    if (begun === undefined) return this.askStore(plan, needs, options, waitedMs, NO_SHARE)
    if (begun === 'ask') return this.askStore(plan, needs, options, waitedMs, LEARNING)
    if (!('split' in begun)) {
      const { staleMs } = begun
      return this.#tell(plan, [[begun]], options, onlySource(plan), { staleMs })
    }
    const { split, waiting } = begun
    if (waiting === undefined) return this.askRest(split, needs, options, waitedMs)
    const sinceMs = this.#monotonicMs()
    return waiting.then(() =>
      this.askRest(split, needs, options, waitedMs + this.#monotonicMs() - sinceMs),
    )
  }

  /** What could be decided here is: the rest is the store's, if anything is left to ask. */
  private askRest(
    split: SplitCall,
    needs: Snapshot['needs'],
    options: AskOptions,
    waitedMs: number,
  ): Decision | Promise<Decision> {
    const { rest, source, staleMs } = split
    if (split.isRefused) {
      const { plan, outcomes } = split.refusal()
      return this.#tell(plan, outcomes, options, source, { staleMs })
    }
    if (rest === undefined) {
      return this.#tell(split.plan, split.outcomes, options, source, { staleMs })
    }
    if (!split.isSilent) {
      return this.askStore(rest, needs, options, waitedMs, { learns: true, split })
    }
    const share = { learns: false, split }
    const asked = new Asked(rest, options, 0, 0, undefined, false, this.#onLate, share)
    const decision = this.degrade(asked, split.silences)
    if (asked.allowed) split.admitted()
    return decision
  }

  private take(asked: Asked): Promise<Groups<Answer>> {
    try {
      const { plan, learns } = asked
      return this.#store.take(learns ? this.#coordinator.sent(plan) : plan.groups, asked)
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
    this.#settlement.settle(asked, answers)
    return undefined
  }

  /** Admits a call that the store has not decided yet; undefined where only the store can. */
  private fromLastStates(asked: Asked): Decision | undefined {
    const { plan } = asked
    const now = this.#time()
    const steps = this.#states.admit(plan, now)
    if (steps === undefined) return undefined
    const spendings = (plan.groups[0] ?? []).map((take, i) =>
      take.amount > 0 ? { take, share: undefined, at: steps[i]?.at ?? now } : undefined,
    )
    asked.decide(undefined, true, spendings)
    // The store has not granted it yet, so there is nothing that a receipt could give back.
    const outcomes = [steps.map((step) => ({ ...step, granted: 0 }))]
    const shadows = plan.groups.slice(1).map(() => [])
    return this.tell(asked, [...outcomes, ...shadows], 'local')
  }

  private answered(asked: Asked, answers: Groups<Answer>): Decision {
    const { plan } = asked
    if (!isWhole(plan, answers)) return this.degrade(asked, answers)
    if (!this.#reports.isAnswering) this.#reports.isAnswering = true
    const [outcomes = []] = answers
    if (!passes(outcomes)) this.#denied?.remember(plan.groups[0] ?? [], outcomes, asked)
    if (asked.learns) this.#coordinator.learn(plan, answers, asked.sentMs)
    return this.tell(asked, answers, 'store')
  }

  /** A store that fails says nothing of what became of the call; one that is misused says so. */
  private failed(asked: Asked, error: unknown): Decision {
    if (!isMisuse(error)) return this.degrade(asked, undefined)
    asked.split?.putBack()
    throw error
  }

  /** Where the store was silent, or in part: each rule by its posture. */
  private degrade(asked: Asked, answers: Groups<Answer> | undefined): Decision {
    const { plan } = asked
    const { allowed, outcomes, source, extras, spendings } = this.#posture.take(plan, answers)
    const early = asked.decide(answers, allowed, spendings)
    this.#reports.isAnswering = false
    if (answers !== undefined) {
      this.#denied?.remember(plan.groups[0] ?? [], answers[0] ?? [], asked)
    }
    this.#settlement.decided(asked, answers)
    if (early !== undefined) this.#settlement.settle(asked, early)
    return this.tell(asked, outcomes, source, extras)
  }

  /** With what was decided here of the same call, which is put back if the call is refused. */
  private tell(
    { plan, options, split }: Asked,
    outcomes: Groups<Outcome>,
    source: Source,
    extras?: Extras,
  ): Decision {
    if (split === undefined) return this.#tell(plan, outcomes, options, source, extras)
    if (!passes(outcomes[0] ?? [])) split.putBack()
    return this.#tell(split.plan, split.merge(outcomes), options, source, extras)
  }

  /** The store's last word on a call that did not wait for it. */
  private late(asked: Asked, answers: Groups<Answer>): void {
    if (asked.takeLate(answers)) this.#settlement.settle(asked, answers)
  }
}

/** A store that never answered may not know its time. */
function wholeOr(time: number, wallUs: () => number): number {
  return Number.isFinite(time) ? Math.floor(time) : wallUs()
}
