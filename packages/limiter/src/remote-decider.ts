/**
 * Decides one call against a remote store. Tries, in order: limits this node can decide locally
 * (leases, local counts), the deny cache, the store itself, and, if the store does not answer by
 * the deadline, each rule's fallback.
 */
import {
  type Coordination,
  type CounterKey,
  type Decision,
  type DecisionExtras,
  isBlock,
  isChargedOnRefusal,
  type Outcome,
  type Plan,
  type PlannedTake,
  passes,
  type Snapshot,
  type Source,
} from '@sluice/core'
import {
  PendingDecision,
  type DecideOptions,
  LEARNING_ROLE,
  NO_ROLE,
  type NodeRole,
} from './pending-decision.js'
import {
  Coordinator,
  needsStates,
  onlySource,
  overlay,
  windowPlacer,
} from './coordination/coordinator.js'
import type { MixedCall } from './coordination/mixed-call.js'
import type { GrantedPlaces } from './concurrency/in-flight-calls.js'
import type { Places } from './concurrency/places.js'
import { DenyCache, type KnownRefusal } from './deny-cache.js'
import { isHedged, StaleStates, hedgeDelayMs } from './hedge.js'
import { FallbackDecider, type FallbackDecision } from './fallback/fallback-decider.js'
import { DeferredCharges } from './deferred-charges.js'
import type { LimiterStats } from './limiter-types.js'
import type { Scheduler } from './periodic.js'
import { knownAlternatives } from './planned/alternatives.js'
import { Reconciler } from './reconcile.js'
import { combineSpread } from './shed/combine-spread.js'
import { emptyAnswer, isEmpty, isMisuse, isWhole } from './store-answer.js'
import {
  type Answer,
  DEFAULT_DEADLINE_MS,
  type Give,
  type Groups,
  type PeekOutcome,
  type PeekOptions,
  type Store,
} from './store.js'

/** Makes a decision of the outcomes; the limiter adds the receipt. */
type ComposeDecision = (
  plan: Plan,
  outcomes: Groups<Outcome>,
  options: DecideOptions,
  source: Source,
  extras?: DecisionExtras,
) => Decision

interface RemoteDeciderDeps {
  readonly store: Store
  readonly places: Places
  readonly compose: ComposeDecision
  /** The wall clock, for a store without a clock of its own. */
  readonly wallUs: () => number
  /** A clock that never steps. */
  readonly monotonicMs: () => number
  /** The most counters kept in this process while the store does not answer. */
  readonly localCounters: number
  readonly scheduler: Scheduler
}

/** What a peek read, and from where. */
type PeekResult = Pick<FallbackDecision, 'outcomes' | 'source' | 'extras'>

/** A peek together with the plan it answers. */
export interface PlannedPeek extends PeekResult {
  readonly snapshot: Snapshot
  readonly plan: Plan
}

export class RemoteDecider {
  readonly #store: Store
  readonly #places: Places
  readonly #compose: ComposeDecision
  readonly #monotonicMs: () => number
  readonly #time: () => number
  readonly #deadlineMs: number
  readonly #denyCache: DenyCache | undefined
  readonly #staleStates = new StaleStates()
  readonly #fallback: FallbackDecider
  readonly #deferredCharges: DeferredCharges
  readonly #reconciler: Reconciler
  readonly #coordinator: Coordinator
  readonly #onLate = (pending: PendingDecision, answers: Groups<Answer>) =>
    this.onLateAnswer(pending, answers)
  #resets = 0

  constructor({
    store,
    places,
    compose,
    wallUs,
    monotonicMs,
    localCounters,
    scheduler,
  }: RemoteDeciderDeps) {
    const { remote } = store
    const invalidate = (key: CounterKey) => this.invalidate(key)
    this.#store = store
    this.#places = places
    this.#compose = compose
    this.#monotonicMs = monotonicMs
    this.#time = remote === undefined ? wallUs : () => finiteOr(remote.time(), wallUs)
    this.#deadlineMs = remote?.deadlineMs ?? DEFAULT_DEADLINE_MS
    const placeInWindow = windowPlacer(remote, this.#time)
    this.#fallback = new FallbackDecider({
      maxCounters: localCounters,
      time: this.#time,
      placeInWindow,
      fleetSize: () => remote?.fleetSize() ?? 1,
    })
    this.#deferredCharges = new DeferredCharges(store, this.#time, scheduler)
    const returnLocal = this.#fallback.returnLocal.bind(this.#fallback)
    const invalidateEverywhere = (key: CounterKey) => this.invalidateEverywhere(key)
    this.#reconciler = new Reconciler({
      store,
      deferredCharges: this.#deferredCharges,
      returnLocal,
      places,
      invalidate,
      invalidateEverywhere,
    })
    this.#coordinator = new Coordinator({
      store,
      scheduler,
      monotonicMs,
      wallUs,
      placeInWindow,
      fleetSize: () => remote?.fleetSize() ?? 1,
      fleetPlace: () => remote?.fleetPlace?.() ?? 0,
      deadlineMs: this.#deadlineMs,
      invalidate,
      onStoreAnswer: () => {
        this.#deferredCharges.isStoreAnswering = true
      },
      isStoreAnswering: () => this.#deferredCharges.isStoreAnswering,
    })
    if (remote === undefined) return
    const { denyCacheMs } = remote
    if (denyCacheMs > 0) this.#denyCache = new DenyCache(denyCacheMs, () => remote.latestTime())
    remote.onGivenBack?.((key) => this.invalidate(key))
    remote.onAnswering(() => {
      this.#deferredCharges.isStoreAnswering = true
      this.#deferredCharges.flush()
    })
  }

  get stats(): LimiterStats {
    return {
      localCounters: this.#fallback.size,
      reportsWaiting: this.#deferredCharges.waiting,
      reportsDropped: this.#deferredCharges.dropped,
      givesLost: this.#reconciler.givesLost,
      coordination: this.#coordinator.stats,
    }
  }

  /** The best estimate of the store's time, in microseconds. */
  time(): number {
    return this.#time()
  }

  /** Milliseconds of a clock that never steps. */
  nowMs(): number {
    return this.#monotonicMs()
  }

  /** Decides a call that has already waited `waitedMs`; synchronously if no store is needed. */
  decide(
    plan: Plan,
    needs: Snapshot['needs'],
    options: DecideOptions,
    waitedMs = 0,
  ): Decision | Promise<Decision> {
    if (isEmpty(plan.groups)) return this.#compose(plan, emptyAnswer(plan.groups), options, 'store')
    if (needs.coordination) return this.decideOnNode(plan, needs, options, waitedMs)
    return this.decideByStore(plan, needs, options, waitedMs, NO_ROLE)
  }

  /** Reads what is left of the counters of a call, or what the fallback says; takes nothing. */
  async peek(plan: Plan, options?: PeekOptions): Promise<PeekResult> {
    const onNode = this.#coordinator.peek(plan)
    if (onNode?.whole !== undefined) {
      const { whole, source, staleMs } = onNode
      return { outcomes: whole, source, extras: { staleMs } }
    }
    try {
      const outcomes = await this.#store.peek(plan.groups, options)
      return { outcomes: overlay(onNode, outcomes), source: 'store', extras: {} }
    } catch (error) {
      if (isMisuse(error)) throw error
      return this.#fallback.peek(plan)
    }
  }

  /** The state of a limit that this node counts itself; undefined if the store counts it. */
  inspectOnNode(take: PlannedTake): PeekOutcome | undefined {
    return this.#coordinator.peekOne(take)
  }

  /** How long a call may wait for the store, in milliseconds. */
  deadlineOf(plan: Plan, options: DecideOptions = {}): number {
    return deadlineFor(plan, options) ?? this.#deadlineMs
  }

  /** Decides a call by fallback, because the names of its counters are not known yet. */
  decideWithoutStore(plan: Plan, options: DecideOptions): Decision {
    const { outcomes, source, extras } = this.#fallback.take(plan, undefined)
    return this.#compose(plan, outcomes, options, source, extras)
  }

  /** The same for a peek. */
  peekWithoutStore(plan: Plan): PeekResult {
    return this.#fallback.peek(plan)
  }

  /** Drops everything cached of a counter, because units were returned to it. */
  invalidate(key: CounterKey): void {
    this.#denyCache?.forget(key, this.#monotonicMs())
    this.#staleStates.forget(key)
    this.#coordinator.invalidate(key)
  }

  /** Drops it on the other nodes too, after the return was sent. */
  invalidateEverywhere(key: CounterKey): void {
    this.invalidate(key)
    this.#store.remote?.announce?.(key)
  }

  /** Drops everything this node holds of a counter that was reset. */
  onReset(key: CounterKey): void {
    this.invalidateEverywhere(key)
    this.#resets += 1
    this.#coordinator.forget(key)
    this.#fallback.forget(key)
    this.#deferredCharges.forget(key)
  }

  /** Drops remembered refusals, because they were made by other rules. */
  onRulesChanged(): void {
    this.#denyCache?.clear()
  }

  /** Returns units of an earlier decision if this node counts them; false if the store does. */
  refundOnNode(give: Give, coordination: Coordination): boolean {
    return this.#coordinator.refund(give, coordination)
  }

  /** Gives back places that a fallback, or this node alone, has granted. */
  givePlaces(take: PlannedTake, granted: GrantedPlaces): void {
    if (granted.posture !== undefined) this.#fallback.givePlaces(take, granted)
    else {
      const { key, limit, compiled } = take
      const { granted: amount, at } = granted
      this.#coordinator.refund({ key, limit, amount, at }, compiled.coordination)
    }
  }

  /** Returns leases and reports local usage to the store. */
  async close(): Promise<void> {
    this.#deferredCharges.close()
    await Promise.all([this.#coordinator.close(), this.#reconciler.finish()])
  }

  /** Decides by deny cache or store: a whole call, or what this node could not decide itself. */
  private decideByStore(
    plan: Plan,
    needs: Snapshot['needs'],
    options: DecideOptions,
    waitedMs: number,
    role: NodeRole,
  ): Decision | Promise<Decision> {
    const cache = this.#denyCache
    const nowMs = cache === undefined && !role.learns ? 0 : this.#monotonicMs()
    const { purpose } = options
    const denied =
      purpose === undefined ? cache?.refuse(plan, nowMs) : this.refusePlanned(plan, nowMs, purpose)
    if (denied !== undefined) {
      role.mixed?.putBack()
      return this.composeDenied(denied, options)
    }
    const fullMs = needs.deadline ? deadlineFor(plan, options) : undefined
    const deadlineMs = waitedMs > 0 ? remainingMs(fullMs ?? this.#deadlineMs, waitedMs) : fullMs
    const hedged = needs.hedge && purpose !== 'reserve' && isHedged(plan)
    const generation = cache?.generation ?? 0
    const states = hedged || (role.learns && needsStates(plan))
    const pending = new PendingDecision(
      plan,
      options,
      nowMs,
      generation,
      deadlineMs,
      states,
      this.#onLate,
      role,
    )
    if (hedged) return this.decideHedged(pending)
    return this.take(pending).then(
      (answers) => this.onAnswer(pending, answers),
      (error) => this.onFailure(pending, error),
    )
  }

  private refusePlanned(
    plan: Plan,
    nowMs: number,
    purpose: DecideOptions['purpose'],
  ): KnownRefusal | undefined {
    const cache = this.#denyCache
    if (cache === undefined || purpose === 'reserve') return undefined
    return cache.refuse(plan, nowMs) ?? knownAlternatives(cache, plan, nowMs)
  }

  private composeDenied(denied: KnownRefusal, options: DecideOptions): Decision {
    // A refusal has no receipt and holds no places.
    return options.purpose === undefined
      ? combineSpread(denied, denied.outcomes, 'deny-cache', denied)
      : this.#compose(denied, denied.outcomes, options, 'deny-cache', { staleMs: denied.staleMs })
  }

  /** Decides what this node can decide itself, and leaves the rest to the store. */
  private decideOnNode(
    plan: Plan,
    needs: Snapshot['needs'],
    options: DecideOptions,
    waitedMs: number,
  ): Decision | Promise<Decision> {
    const ownMs = needs.deadline ? deadlineFor(plan, options) : undefined
    const start = this.#coordinator.begin(plan, remainingMs(ownMs ?? this.#deadlineMs, waitedMs))
    if (start === undefined) return this.decideByStore(plan, needs, options, waitedMs, NO_ROLE)
    if (start === 'store') return this.decideByStore(plan, needs, options, waitedMs, LEARNING_ROLE)
    if (!('mixed' in start)) {
      const { staleMs } = start
      return this.#compose(plan, [[start]], options, onlySource(plan), { staleMs })
    }
    const { mixed, waiting } = start
    if (waiting === undefined) return this.decideRest(mixed, needs, options, waitedMs)
    const sinceMs = this.#monotonicMs()
    return waiting.then(() =>
      this.decideRest(mixed, needs, options, waitedMs + this.#monotonicMs() - sinceMs),
    )
  }

  /** Completes a mixed call: refuses it, composes it, or sends what is left to the store. */
  private decideRest(
    mixed: MixedCall,
    needs: Snapshot['needs'],
    options: DecideOptions,
    waitedMs: number,
  ): Decision | Promise<Decision> {
    const { rest, source, staleMs } = mixed
    if (mixed.isRefused) {
      this.chargeRefusal(mixed.plan)
      const { plan, outcomes } = mixed.refusal()
      return this.#compose(plan, outcomes, options, source, { staleMs })
    }
    if (rest === undefined) {
      return this.#compose(mixed.plan, mixed.outcomes, options, source, { staleMs })
    }
    if (!mixed.isSilent) {
      return this.decideByStore(rest, needs, options, waitedMs, { learns: true, mixed })
    }
    const role = { learns: false, mixed }
    const pending = new PendingDecision(rest, options, 0, 0, undefined, false, this.#onLate, role)
    const decision = this.degrade(pending, mixed.silences)
    if (pending.allowed) mixed.onAdmitted()
    return decision
  }

  /** Charges a call that this node refuses to the limits that charge refusals. */
  private chargeRefusal({ groups }: Plan): void {
    for (const take of groups[0] ?? []) {
      if (!isChargedOnRefusal(take)) continue
      this.#deferredCharges.add(take.key, take.limit, take.amount, this.#time())
    }
    this.#deferredCharges.flush()
  }

  private take(pending: PendingDecision): Promise<Groups<Answer>> {
    try {
      const { plan, learns, options } = pending
      const groups = learns ? this.#coordinator.storeTakes(plan) : plan.groups
      if (options.inFlight === true) return this.#places.send(groups, pending)
      return this.#store.take(groups, pending)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Decides by the store's answer, or by the last known states if that takes too long. */
  private decideHedged(pending: PendingDecision): Promise<Decision> {
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
      const hedgeAfterMs = hedgeDelayMs(pending.deadlineMs ?? this.#deadlineMs)
      const timer = setTimeout(
        () => attempt(() => this.decideFromStaleStates(pending)),
        hedgeAfterMs,
      )
      void this.take(pending).then(
        (answers) => {
          clearTimeout(timer)
          attempt(() => {
            // A state that was read before a reset may belong to a counter that was reset.
            if (resets === this.#resets)
              this.#staleStates.learn(pending.plan, answers, this.#time())
            return this.onHedgedAnswer(pending, answers)
          })
        },
        (error) => {
          clearTimeout(timer)
          attempt(() => (pending.isDecided ? undefined : this.onFailure(pending, error)))
        },
      )
    })
  }

  private onHedgedAnswer(pending: PendingDecision, answers: Groups<Answer>): Decision | undefined {
    if (!pending.isDecided) return this.onAnswer(pending, answers)
    this.#reconciler.reconcile(pending, answers)
    return undefined
  }

  /** Admits a call before the store has decided it; undefined if only the store can decide. */
  private decideFromStaleStates(pending: PendingDecision): Decision | undefined {
    const { plan } = pending
    const now = this.#time()
    const steps = this.#staleStates.admit(plan, now)
    if (steps === undefined) return undefined
    // A block takes no units: to charge it would begin one.
    const spendings = (plan.groups[0] ?? []).map((take, i) =>
      take.amount > 0 && !isBlock(take.limit)
        ? { take, share: undefined, at: steps[i]?.at ?? now }
        : undefined,
    )
    pending.decide(undefined, true, spendings)
    // The store has granted nothing yet, so a receipt has nothing to return.
    const outcomes = [steps.map((step) => ({ ...step, granted: 0 }))]
    const shadows = plan.groups.slice(1).map(() => [])
    return this.compose(pending, [...outcomes, ...shadows], 'local')
  }

  private onAnswer(pending: PendingDecision, answers: Groups<Answer>): Decision {
    const { plan } = pending
    if (!isWhole(plan, answers)) return this.degrade(pending, answers)
    if (!this.#deferredCharges.isStoreAnswering) this.#deferredCharges.isStoreAnswering = true
    const [outcomes = []] = answers
    if (!passes(outcomes)) this.#denyCache?.remember(plan.groups[0] ?? [], outcomes, pending)
    if (plan.alternatives !== undefined) this.rememberAlternatives(pending, answers)
    if (pending.learns) this.#coordinator.learn(plan, answers, pending.sentMs)
    return this.compose(pending, answers, 'store')
  }

  /** Remembers the refusals of groups that are decided by themselves. */
  private rememberAlternatives(pending: PendingDecision, answers: Groups<Answer>): void {
    const { groups, alternatives = 0 } = pending.plan
    for (let g = groups.length - alternatives; g < groups.length; g++) {
      this.#denyCache?.remember(groups[g] ?? [], answers[g] ?? [], pending)
    }
  }

  /**
   * Falls back if the store failed, which says nothing about what became of the call; throws if the
   * store was misused.
   */
  private onFailure(pending: PendingDecision, error: unknown): Decision {
    if (!isMisuse(error)) return this.degrade(pending, undefined)
    pending.mixed?.putBack()
    throw error
  }

  /** Decides by fallback every take that the store did not answer. */
  private degrade(pending: PendingDecision, answers: Groups<Answer> | undefined): Decision {
    const { plan } = pending
    const { allowed, outcomes, source, extras, spendings, alternatives } = this.#fallback.take(
      plan,
      answers,
    )
    const early = pending.decide(answers, allowed, spendings, alternatives)
    this.#deferredCharges.isStoreAnswering = false
    if (answers !== undefined) {
      this.#denyCache?.remember(plan.groups[0] ?? [], answers[0] ?? [], pending)
    }
    this.#reconciler.onFallback(pending, answers)
    if (early !== undefined) this.#reconciler.reconcile(pending, early)
    return this.compose(pending, outcomes, source, extras)
  }

  /**
   * Merges the outcomes with those decided on this node, which are put back where their group is
   * refused.
   */
  private compose(
    { plan, options, mixed }: PendingDecision,
    outcomes: Groups<Outcome>,
    source: Source,
    extras?: DecisionExtras,
  ): Decision {
    if (mixed === undefined) return this.#compose(plan, outcomes, options, source, extras)
    mixed.putBackRefused(outcomes)
    return this.#compose(mixed.plan, mixed.merge(outcomes), options, source, extras)
  }

  /** Reconciles the late answer to a call that was decided without it. */
  private onLateAnswer(pending: PendingDecision, answers: Groups<Answer>): void {
    if (pending.recordLate(answers)) this.#reconciler.reconcile(pending, answers)
  }
}

/** The deadline of a call, if it is not that of the store: the shortest one that is set. */
function deadlineFor(plan: Plan, { deadlineMs }: DecideOptions): number | undefined {
  const ruleMs = ruleDeadline(plan)
  return ruleMs === undefined || deadlineMs === undefined
    ? (ruleMs ?? deadlineMs)
    : Math.min(ruleMs, deadlineMs)
}

/** The shortest deadline among the enforced rules that set one. */
function ruleDeadline({ matched }: Plan): number | undefined {
  let shortest: number | undefined
  for (let i = 0; i < matched.length; i++) {
    const rule = matched[i]?.rule
    const ruleMs = rule?.mode === 'enforce' ? rule.rule.deadlineMs : undefined
    if (ruleMs !== undefined && (shortest === undefined || ruleMs < shortest)) shortest = ruleMs
  }
  return shortest
}

/** Rounded to whole milliseconds: the store keeps a queue per distinct deadline. */
function remainingMs(deadlineMs: number, waitedMs: number): number {
  return Math.max(1, Math.ceil(deadlineMs - waitedMs))
}

/** The store's time is not finite before its first answer; then the wall clock is used. */
function finiteOr(time: number, wallUs: () => number): number {
  return Number.isFinite(time) ? Math.floor(time) : wallUs()
}
