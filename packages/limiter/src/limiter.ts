/** `createLimiter`: matches a call to the rules, charges the store and composes the decision. */
import {
  type Call,
  changeOverrides,
  combine,
  type CompileOptions,
  type Decision,
  explainMatches,
  explainRules,
  type DecisionExtras,
  isCount,
  IPV6_PREFIX_DEFAULT,
  type MatchedRule,
  matchRules,
  type NormalizedCall,
  normalizeCall,
  type Outcome,
  type OverrideChange,
  type ParsedRules,
  type Plan,
  type PlannedTake,
  type PlanOptions,
  type Policy,
  type Problem,
  placesByRule,
  planCall,
  replaceOverrides,
  type SipKey,
  SluiceError,
  type Snapshot,
  type Source,
  unmatchedDecision,
  withoutPlaces,
  writeReceipt,
} from '@sluice/core'
import type { DecideOptions } from './pending-decision.js'
import { type PlannedPeek, RemoteDecider } from './remote-decider.js'
import { type Clock, monotonicMs as systemMonotonicMs, systemClock } from './clock.js'
import {
  type Inspection,
  type InspectedCaller,
  inspectCallers,
  inspectCounters,
} from './inspect.js'
import {
  type GrantedPlaces,
  type HoldOptions,
  InFlightCalls,
  type InFlightStats,
} from './concurrency/in-flight-calls.js'
import { Places } from './concurrency/places.js'
import { planCallerLimits, policiesOf } from './caller-policies.js'
import { SecretWait } from './secret-wait.js'
import {
  ACCEPTED_CHECK,
  readLocalCounters,
  readDependency,
  readPrefix,
  readRegionPlace,
  readSecret,
  readStore,
  requireCall,
  requireLimiterOptions,
  requireOptions,
} from './limiter-options.js'
import type { CheckOptions, Limiter, LimiterOptions, RulesOptions } from './limiter-types.js'
import { memoryStore } from './memory/memory-store.js'
import { type VerbDeps, peekPlan } from './peek-plan.js'
import { DECIDE_PLANNED, type PlannedDecider } from './planned/planned-calls.js'
import { PlannedVerb } from './planned/planned-verb.js'
import { randomKey, randomKeyIfAllowed, randomSerial } from './random.js'
import { systemScheduler } from './periodic.js'
import { isEmpty, storeAnswer } from './store-answer.js'
import {
  forgetRefusals,
  givesOfCall,
  givesOfReceipt,
  keysOfCaller,
  RefundedReceipts,
  refundEntries,
  type Refund,
  type ResetOptions,
  resetCounter,
} from './refund.js'
import { smallestLimits } from './reservation/cost-limits.js'
import type {
  ActualCosts,
  Reservation,
  ReserveOptions,
  Settlement,
} from './reservation/reservation-types.js'
import type { ReservationStats } from './reservation/reservation-stats.js'
import { isReservePlan } from './reservation/reserve-plan.js'
import { ReservationVerbs, type Settled } from './reservation/reservation-verbs.js'
import { compileParsed, type LoadedRules, loadRules, type RulesInput } from './rule-set.js'
import { combineSpread } from './shed/combine-spread.js'
import type { LoadShedding, SheddingStats } from './shed/load-shedding.js'
import { openShedding } from './shed/open-shedding.js'
import type { Groups, PeekOptions, Store, SyncStore } from './store.js'

/**
 * Creates a limiter. It decides calls by its rules and keeps counters in its store.
 *
 * @example
 * const limiter = createLimiter({
 *   rules: [{ id: 'per-user', by: ['user'], limits: ['10/second'] }],
 * })
 * const decision = await limiter.check({ attributes: { user: 'u1' } })
 * if (!decision.allowed) console.log(`retry in ${decision.retryAfterMs} ms`)
 * await limiter.close()
 *
 * @throws RulesError if a rule is invalid; SluiceError if an option is
 */
export function createLimiter(options: LimiterOptions): Limiter {
  return new StoreLimiter(options)
}

class StoreLimiter implements Limiter, PlannedDecider {
  readonly #store: Store
  readonly #sync: SyncStore | undefined
  readonly #verbDeps: VerbDeps
  readonly #decider: RemoteDecider | undefined
  readonly #secretWait: SecretWait | undefined
  readonly #places: Places
  readonly #inFlight = new InFlightCalls((...given) => this.givePlaces(...given))
  readonly #clock: Clock
  readonly #compile: Pick<CompileOptions, 'ipv6Prefix' | 'regions'>
  readonly #refunded = new RefundedReceipts()
  readonly #reservations: ReservationVerbs
  readonly #planned: PlannedVerb
  /** Random until the secret that the store keeps is known. */
  #secret: SipKey
  /** False until the first call where nothing may be random yet: see `randomKeyIfAllowed`. */
  #hasSecret = true
  #parsed: ParsedRules
  #snapshot: Snapshot
  /** Starts at random, so that limiters that share a secret make different receipts. */
  #serial: number | undefined
  /** Undefined if nobody knows how busy the process is. */
  readonly #shedding: LoadShedding | undefined
  #hasRules: boolean
  #closed = false
  /** Whether it was closed, or has no rules or no secret yet: one check for every call. */
  #isShut = false

  constructor(options: LimiterOptions) {
    const { rules, file, store, secret, ipv6Prefix } = requireLimiterOptions(options)
    const { clock = systemClock } = options
    this.#clock = readDependency('clock', clock, ['now'])
    const first = secret ?? randomKeyIfAllowed()
    this.#hasSecret = first !== undefined
    this.#secret = readSecret(first ?? NO_SECRET)
    const regions = readRegionPlace(store?.regions)
    this.#compile = { ipv6Prefix: readPrefix(ipv6Prefix ?? IPV6_PREFIX_DEFAULT), regions }
    const localCounters = readLocalCounters(options.localCounters)
    this.#hasRules = rules !== undefined
    this.updateShut()
    const { parsed, snapshot } = loadRules(rules ?? [], { ...this.compileOptions(), file })
    this.#parsed = parsed
    this.#snapshot = snapshot
    this.#store = readStore(store ?? memoryStore({ clock }))
    this.#sync = this.#store.sync
    this.#verbDeps = {
      store: this.#store,
      snapshot: () => this.#snapshot,
      decider: () => this.#decider,
      secretWait: () => this.#secretWait,
    }
    this.#shedding = openShedding(options, clock, this.#snapshot)
    const scheduler = readDependency('scheduler', options.scheduler ?? systemScheduler, ['after'])
    const monotonicMs = options.monotonicMs ?? systemMonotonicMs
    this.#places = new Places({ store: this.#store, scheduler, monotonicMs })
    this.#reservations = this.openReservations(options)
    this.#planned = this.openPlanned()
    if (this.#sync !== undefined) return
    this.#decider = new RemoteDecider({
      store: this.#store,
      places: this.#places,
      compose: (plan, outcomes, request, source, extras) =>
        this.compose(plan, outcomes, request, source, extras),
      wallUs: () => clock.now(),
      monotonicMs,
      localCounters,
      scheduler,
    })
    const { remote } = this.#store
    const use = secret === undefined ? (key: Uint8Array) => this.useSecret(key) : undefined
    if (remote !== undefined) this.#secretWait = new SecretWait(remote, use)
  }

  get isSync(): boolean {
    return this.#sync !== undefined
  }

  get countsMessages(): boolean {
    return this.#snapshot.countsMessages
  }

  get hasDurable(): boolean {
    return this.#snapshot.hasDurable
  }

  get warnings(): readonly Problem[] {
    return this.#parsed.warnings
  }

  get stats(): Limiter['stats'] {
    return this.#decider?.stats
  }

  get inFlight(): ReadonlyMap<string, InFlightStats> {
    return this.#inFlight.stats(placesByRule(this.#snapshot))
  }

  get shedding(): SheddingStats | undefined {
    return this.#shedding?.stats
  }

  get reservations(): ReservationStats {
    return this.#reservations.stats
  }

  ready(): Promise<void> {
    return this.#secretWait?.ready ?? Promise.resolve()
  }

  check(call: Call, options: CheckOptions = NO_OPTIONS): Promise<Decision> {
    try {
      // Not an async function: a decision made synchronously needs one promise, not two.
      const decision = this.decide(call, options)
      return decision instanceof Promise ? decision : Promise.resolve(decision)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  checkSync(call: Call, options: CheckOptions = NO_OPTIONS): Decision {
    if (this.#sync === undefined) {
      throw new SluiceError('STORE_NOT_SYNC', 'checkSync: this store answers later; use check')
    }
    const plan = this.plan(call, options)
    if (plan.groups === undefined) return plan
    const outcomes = this.#sync.take(plan.groups)
    if (options.inFlight === true) this.#places.record(plan.groups, outcomes)
    return this.compose(plan, outcomes, options)
  }

  decide(call: Call, options: CheckOptions = NO_OPTIONS): Decision | Promise<Decision> {
    const decider = this.#decider
    if (decider === undefined) return this.checkSync(call, options)
    const plan = this.plan(call, options)
    if (plan.groups === undefined) return plan
    const key = this.#secretWait
    // A call that takes from no counter needs no counter names.
    const isNamed = key === undefined || key.isKnown || isEmpty(plan.groups)
    if (isNamed) return decider.decide(plan, this.#snapshot.needs, options)
    const sinceMs = decider.nowMs()
    return key
      .isKnownWithin(decider.deadlineOf(plan))
      .then((isKnown) =>
        isKnown
          ? this.decideNamed(call, options, decider, sinceMs)
          : decider.decideWithoutStore(plan, options),
      )
  }

  [DECIDE_PLANNED](...planned: Parameters<PlannedVerb['decide']>): Decision | Promise<Decision> {
    return this.#planned.decide(...planned)
  }

  /** Plans again with the real counter names, and waits for the rest of the deadline. */
  private decideNamed(
    call: Call,
    options: CheckOptions,
    decider: RemoteDecider,
    sinceMs: number,
  ): Decision | Promise<Decision> {
    const plan = this.planMatching(call, this.viewOf(call), options)
    if (plan.groups === undefined) return plan
    return decider.decide(plan, this.#snapshot.needs, options, decider.nowMs() - sinceMs)
  }

  async peek(call: Call): Promise<Decision> {
    const view = this.viewOf(call)
    const settled: Plan | Settled =
      this.#shedding?.peek(view) ?? this.planMatching(call, view, NO_OPTIONS)
    if (settled.groups === undefined) return settled
    const { plan, outcomes, source, extras } = await this.peekPlan((snapshot) =>
      planCall(withoutPlaces(this.match(snapshot, call)), call),
    )
    return combine(plan, outcomes, source, extras)
  }

  async explain(call: Call): Promise<Decision> {
    const { snapshot, plan, outcomes, source, extras } = await this.peekPlan(
      (now) => planCall(this.match(now, call), call),
      { states: true },
    )
    const explain = explainRules(explainMatches(snapshot, call), plan, outcomes)
    const view = normalizeCall(snapshot, call.attributes)
    const shed = this.#shedding?.peek(view)
    if (shed !== undefined) return { ...shed, explain }
    if (!explain.some(({ matched }) => matched)) return { ...unmatchedDecision(view), explain }
    return combine(plan, outcomes, source, { ...extras, explain })
  }

  async limits(call: Call): Promise<readonly Policy[]> {
    this.requireRules()
    requireCall(call)
    const wallMs = Math.floor(this.#clock.now() / 1000)
    const { plan, outcomes } = await this.peekPlan((snapshot) =>
      planCallerLimits(snapshot, call, wallMs),
    )
    return policiesOf(plan, outcomes)
  }

  costLimits(call: Call): ReadonlyMap<string, number> {
    return smallestLimits(this.match(this.#snapshot, call, this.viewOf(call)))
  }

  async refund(target: string | Call): Promise<void> {
    this.requireOpen()
    await this.requireKey('nothing was given back')
    if (typeof target !== 'string') {
      this.requireRules()
      const gives = givesOfCall(planCall(this.match(this.#snapshot, target), target))
      await storeAnswer(
        Promise.all(gives.map((give) => this.give(give))),
        'a part of it may be given back',
      )
      return
    }
    const gives = givesOfReceipt(this.#snapshot, target)
    const paid = this.#refunded.entriesOf(target, gives.length)
    const pay = refundEntries(gives, paid, (give) => this.give(give))
    await storeAnswer(pay, 'the receipt can be refunded again')
  }

  reserve(call: Call, options: ReserveOptions = {}): Promise<Reservation> {
    return this.#reservations.reserve(call, options)
  }

  extend(...extension: Parameters<Limiter['extend']>): Promise<Reservation> {
    return this.#reservations.extend(...extension)
  }

  settle(reservation: string, actual: ActualCosts): Promise<Settlement> {
    return this.#reservations.settle(reservation, actual)
  }

  cancel(reservation: string): Promise<Settlement> {
    return this.#reservations.cancel(reservation)
  }

  async reset(call: Call, options: ResetOptions = {}): Promise<void> {
    this.requireOpen()
    requireCall(call)
    requireOptions(options, '{ rule }')
    await this.requireKey('nothing was reset')
    const keys = keysOfCaller(this.#snapshot, call, options)
    const resets = Promise.all(keys.map((key) => resetCounter(this.#store, this.#decider, key)))
    await storeAnswer(resets, 'the reset can be tried again')
  }

  async inspect(rule: string, call: Call): Promise<Inspection> {
    this.requireOpen()
    await this.requireKey('nothing is known')
    const request = { rule, call, wallMs: Math.floor(this.#clock.now() / 1000) }
    const inspectOnNode = (take: PlannedTake) => this.#decider?.inspectOnNode(take)
    const inspected = inspectCounters(this.#store, this.#snapshot, request, inspectOnNode)
    return storeAnswer(inspected, 'nothing is known')
  }

  callers(call: Call): readonly InspectedCaller[] {
    this.requireOpen()
    this.#secretWait?.requireKnown()
    return inspectCallers(this.#snapshot, call, Math.floor(this.#clock.now() / 1000))
  }

  setRules(rules: RulesInput, options: RulesOptions = {}): readonly Problem[] {
    this.requireOpen()
    const { file } = requireOptions(options, '{ file }')
    return this.activate(loadRules(rules, { ...this.compileOptions(this.#snapshot), file }))
  }

  setParsedRules(parsed: ParsedRules): readonly Problem[] {
    this.requireOpen()
    return this.activate(compileParsed(parsed, this.compileOptions(this.#snapshot)))
  }

  changeOverrides(changes: readonly OverrideChange[]): void {
    this.requireOpen()
    const { snapshot, callers } = changeOverrides(this.#snapshot, changes)
    this.#snapshot = snapshot
    if (this.#decider !== undefined) forgetRefusals(this.#decider, snapshot, callers)
  }

  replaceOverrides(all: Iterable<OverrideChange>): void {
    this.requireOpen()
    this.#snapshot = replaceOverrides(this.#snapshot, all)
    this.#decider?.onRulesChanged()
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.updateShut()
    this.#shedding?.close()
    this.#reservations.close()
    await Promise.all([this.#decider?.close(), this.#places.close()])
    await this.#store.close()
  }

  private openPlanned() {
    return new PlannedVerb({
      ...this.#verbDeps,
      plan: (call, options, isFirst) =>
        isFirst ? this.plan(call, options) : this.planMatching(call, this.viewOf(call), options),
      requireUsable: () => this.requireSecret(),
    })
  }

  private openReservations({ scheduler, monotonicMs = systemMonotonicMs }: LimiterOptions) {
    return new ReservationVerbs({
      ...this.#verbDeps,
      time: () => this.#decider?.time() ?? this.#clock.now(),
      plan: (call, { canWait, inFlight }) => this.plan(call, { canWait, inFlight, reserves: true }),
      holdPlaces: (plan, outcomes, options) => this.#inFlight.hold(plan, outcomes, options),
      keepPlaces: ({ key, at }, limit, ms) => this.#places.keep(key, limit, at, monotonicMs() + ms),
      requireRules: () => this.requireRules(),
      requireKey: () => this.requireKey('nothing was settled'),
      scheduler: readDependency('scheduler', scheduler ?? systemScheduler, ['after']),
    })
  }

  private activate(loaded: LoadedRules): readonly Problem[] {
    this.#hasRules = true
    this.replace(loaded)
    return this.#parsed.warnings
  }

  /** Compiles the active rules again with the secret that the store keeps. */
  private useSecret(secret: Uint8Array): void {
    this.#secret = readSecret(secret)
    this.#hasSecret = true
    this.replace(compileParsed(this.#parsed, this.compileOptions(this.#snapshot)))
  }

  private replace({ parsed, snapshot }: LoadedRules): void {
    this.#parsed = parsed
    this.#snapshot = snapshot
    this.#shedding?.useRules(snapshot)
    this.updateShut()
    this.#decider?.onRulesChanged()
  }

  private updateShut(): void {
    this.#isShut = this.#closed || !this.#hasRules || !this.#hasSecret
  }

  private compileOptions(before?: Snapshot) {
    return { ...this.#compile, secret: this.#secret, before }
  }

  /** The takes of a call; its decision if it is shed, or no rule matches it. */
  private plan(call: Call, options: CallOptions = NO_OPTIONS): Plan | Settled {
    const view = this.viewOf(call)
    return this.#shedding?.decide(view) ?? this.planMatching(call, view, options)
  }

  private planMatching(call: Call, view: NormalizedCall, options: CallOptions): Plan | Settled {
    // No rest pattern: it would copy the options at every call.
    const { canWait = true, inFlight = false } = requireOptions(options, ACCEPTED_CHECK)
    const { gate = false, reserves } = options
    const { needs } = this.#snapshot
    const all = this.match(this.#snapshot, call, view)
    const matched = needs.places && !inFlight ? withoutPlaces(all) : all
    // An invalid cost is an error even if no rule matches; a gate has no cost.
    if (matched.length === 0 && (gate || isCount(call.cost ?? 1))) return unmatchedDecision(view)
    if (gate || reserves || needs.places) {
      const holder = needs.places ? this.#places.holderOf(reserves) : undefined
      return planCall(matched, call, { canWait, gate, reserves, holder })
    }
    return planCall(matched, call, canWait ? MAY_WAIT : MAY_NOT_WAIT)
  }

  private viewOf(call: Call): NormalizedCall {
    if (this.#isShut) this.requireRules()
    requireCall(call)
    return normalizeCall(this.#snapshot, call.attributes)
  }

  /** `view` is the normalized call, if it was checked and normalized already. */
  private match(snapshot: Snapshot, call: Call, view?: NormalizedCall): readonly MatchedRule[] {
    if (view === undefined) requireCall(call)
    const wallMs = snapshot.needs.clock ? Math.floor(this.#clock.now() / 1000) : 0
    return matchRules(snapshot, call, wallMs, view)
  }

  private compose(
    plan: Plan,
    outcomes: Groups<Outcome>,
    { receipt, inFlight, purpose }: DecideOptions,
    source: Source = 'store',
    given?: DecisionExtras,
  ): Decision {
    if (purpose !== undefined) {
      if (purpose !== 'reserve') return purpose.compose(plan, outcomes, source, given)
      // A plan without its reserve is what this node refused of it.
      if (isReservePlan(plan)) return this.#reservations.compose(plan, outcomes, source, given)
    }
    const release = inFlight === true ? this.#inFlight.hold(plan, outcomes, UNSETTLED) : undefined
    const extras = release === undefined ? given : { ...given, release }
    const decision = receipt === true ? undefined : combineSpread(plan, outcomes, source, extras)
    if (decision !== undefined && (receipt !== 'if-delayed' || decision.delayMs === 0)) {
      return decision
    }
    const serial = this.#serial ?? randomSerial()
    this.#serial = serial + 1
    return combineSpread(plan, outcomes, source, {
      ...extras,
      receipt: writeReceipt(plan, outcomes, { secret: this.#secret, serial }),
    })
  }

  /** Gives back the places of a call that has ended to whoever granted them. */
  private givePlaces(take: PlannedTake, granted: GrantedPlaces, { isSettled }: HoldOptions): void {
    const isExact = granted.posture === undefined && take.compiled.coordination === 'exact'
    const isOfStore = isExact || this.#decider === undefined
    if (!isOfStore) this.#decider?.givePlaces(take, granted)
    else if (!isSettled) this.#places.giveTaken(take, granted.granted)
  }

  /** Reads the counters of a plan, from the store if it answers. */
  private async peekPlan<P extends Plan>(
    makePlan: (snapshot: Snapshot) => P,
    options?: PeekOptions,
  ): Promise<PlannedPeek & { readonly plan: P }> {
    if (this.#isShut) this.requireRules()
    return peekPlan(this.#verbDeps, makePlan, options)
  }

  private async give({ coordination, ...give }: Refund): Promise<void> {
    if (this.#decider?.refundOnNode(give, coordination) === true) return
    this.#decider?.invalidate(give.key)
    try {
      await this.#store.give(give)
    } finally {
      this.#decider?.invalidateEverywhere(give.key)
    }
  }

  private async requireKey(consequence: string): Promise<void> {
    const key = this.#secretWait
    if (
      key === undefined ||
      key.isKnown ||
      (await key.isKnownWithin(this.#store.remote?.deadlineMs ?? 0))
    )
      return
    throw new SluiceError('STORE_FAILED', `The store has not started: ${consequence}`)
  }

  private requireOpen(): void {
    if (this.#closed) throw new SluiceError('LIMITER_CLOSED', 'This limiter was closed')
  }

  private requireRules(): void {
    this.requireOpen()
    if (!this.#hasRules) throw new SluiceError('RULES_ABSENT', 'There are no rules yet')
    this.requireSecret()
  }

  private requireSecret(): void {
    this.requireOpen()
    if (!this.#hasSecret) this.useSecret(randomKey())
  }
}

/** How a call is planned. */
type CallOptions = CheckOptions & Pick<PlanOptions, 'reserves'>

const NO_OPTIONS: CheckOptions = {}
const UNSETTLED: HoldOptions = { isSettled: false }
/** Names no counter: it is replaced before the first call. */
const NO_SECRET = new Uint8Array(16)
const MAY_WAIT = { canWait: true } as const
const MAY_NOT_WAIT = { canWait: false } as const
