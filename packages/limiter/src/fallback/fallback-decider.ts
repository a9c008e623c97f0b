/**
 * Decides calls that the store did not answer, each rule by its posture (what the rule does when
 * the store does not answer). Answers that the store did give are kept. Shadow rules pass.
 */
import {
  isBlock,
  isConcurrency,
  type DecisionExtras,
  type Limit,
  type Outcome,
  type Plan,
  type PlannedTake,
  type Posture,
  type PostureName,
  passes,
  type Source,
  stepOf,
  type Take,
} from '@sluice/core'
import { ProcessLimits, withinLease } from '../concurrency/process-limits.js'
import { placedStore } from '../memory/memory-store.js'
import type { Answer, Groups } from '../store.js'
import { FallbackShares } from './fallback-share.js'

/** An outcome, with the posture that made it if the store did not. */
export interface FallbackOutcome extends Outcome {
  readonly state?: unknown
  readonly posture?: PostureName | undefined
}

/** What a call took locally instead of from the store. */
export interface Spending {
  readonly take: PlannedTake
  /** The share it was taken from; undefined if no local counter was charged. */
  readonly share: Limit | undefined
  readonly at: number
}

/** What became of a group that is decided by itself: see `Plan.alternatives`. */
export interface AlternativeFallback {
  readonly group: number
  readonly allowed: boolean
  /** In the order of the takes. */
  readonly spendings: readonly (Spending | undefined)[]
}

export interface FallbackDecision {
  readonly allowed: boolean
  readonly outcomes: Groups<FallbackOutcome>
  readonly source: Source
  readonly extras: DecisionExtras
  /** In the order of the enforced takes. */
  readonly spendings: readonly (Spending | undefined)[]
  readonly alternatives: readonly AlternativeFallback[]
}

export interface FallbackOptions {
  /** The most local counters. */
  readonly maxCounters: number
  /** The best estimate of the store's time. */
  readonly time: () => number
  /** The time at which a unit of this limit spent now counts. @default `time` */
  readonly placeInWindow?: ((limit: Limit) => number) | undefined
  readonly fleetSize: () => number
}

/** The store's answer to one take; `unknown` if there is none. */
export function answerAt(answers: Groups<Answer> | undefined, group: number, at: number): Answer {
  return answers?.[group]?.[at] ?? 'unknown'
}

/** The wait that a refusal states if no counter knows better. */
const RETRY_AFTER_MS = 1000

/**
 * The counters outlive the outage: otherwise a store that comes and goes would hand out a fresh
 * share each time.
 */
export class FallbackDecider {
  readonly #counters
  readonly #shares = new FallbackShares()
  readonly #processLimits = new ProcessLimits()
  readonly #time: () => number
  readonly #placeInWindow: (limit: Limit) => number
  readonly #fleetSize: () => number
  /** The current time of the counters: each limit is decided at a time of its own. */
  #at = 0

  constructor({ maxCounters, time, placeInWindow = time, fleetSize }: FallbackOptions) {
    this.#time = time
    this.#placeInWindow = placeInWindow
    this.#fleetSize = fleetSize
    this.#counters = placedStore({ maxCounters, clock: { now: () => this.#at } })
  }

  /** The number of local counters. */
  get size(): number {
    return this.#counters.stats().counters
  }

  /** Decides a call; takes from local counters only if every enforced limit admits it. */
  take(plan: Plan, answers: Groups<Answer> | undefined): FallbackDecision {
    return this.decide(plan, answers, true)
  }

  /** Decides without taking. */
  peek(plan: Plan): FallbackDecision {
    return this.decide(plan, undefined, false)
  }

  /** Returns what was taken locally, because the store has taken it after all. */
  returnLocal({ take, share, at }: Spending): void {
    if (share === undefined) return
    this.#at = this.#placeInWindow(share)
    this.#counters.sync.give({ key: take.key, limit: share, amount: take.amount, at })
  }

  /** Gives back places that a call took here, now that it has ended. */
  givePlaces(take: PlannedTake, { granted, at }: Outcome): void {
    const { key, limit } = this.shareOf(take)
    this.#at = this.#time()
    this.#counters.sync.give({ key, limit, amount: granted, at })
  }

  forget(key: Take['key']): void {
    this.#counters.sync.reset(key)
  }

  private decide(
    plan: Plan,
    answers: Groups<Answer> | undefined,
    spends: boolean,
  ): FallbackDecision {
    const { groups, alternatives: alternativeCount = 0 } = plan
    const now = this.#time()
    const postures: Record<string, PostureName> = {}
    const first = this.decideGroup(groups[0] ?? [], answers, 0, { spends, now, postures })
    const { allowed, isSilent, isCertain } = first
    const alternatives: DecidedGroup[] = []
    const others = groups.slice(1).map((group, g) => {
      if (g + 1 < groups.length - alternativeCount) return passSilent(group, answers, g + 1, now)
      const isOpen = spends && allowed
      const decided = this.decideGroup(group, answers, g + 1, { spends: isOpen, now, postures })
      alternatives.push(decided)
      return decided.outcomes
    })
    const reason = isCertain ? undefined : 'posture'
    const isByPosture = isSilent || alternatives.some((each) => each.isSilent)
    return {
      allowed,
      outcomes: [first.outcomes, ...others],
      source: isByPosture ? 'posture' : 'store',
      extras: isByPosture ? { postures, reason } : {},
      spendings: first.spendings,
      alternatives,
    }
  }

  private decideGroup(
    takes: readonly PlannedTake[],
    answers: Groups<Answer> | undefined,
    group: number,
    { spends, now, postures }: GroupOptions,
  ): DecidedGroup {
    const storeOutcomes: (FallbackOutcome | undefined)[] = []
    let isSilent = false
    let isRefused = false
    let isCertain = false
    for (const [i, take] of takes.entries()) {
      const answer = answerAt(answers, group, i)
      const silent = typeof answer === 'string'
      const outcome = silent ? withoutCounter(take, now) : answer
      if (silent) postures[take.compiled.rule] = nameOf(take.compiled.posture)
      const refuses = outcome !== undefined && outcome.retryAfterMs !== 0
      isSilent ||= silent
      isRefused ||= refuses
      // A refusal by the store, or of a cost above the capacity, does not depend on a posture.
      isCertain ||= refuses && (!silent || outcome.retryAfterMs === null)
      storeOutcomes.push(outcome)
    }
    const spending = { spends: spends && !isRefused, counts: spends, now }
    const local = this.decideFromShares(takes, storeOutcomes, spending)
    const allowed = !isRefused && local.allowed
    return { ...local, group, allowed, isSilent, isCertain }
  }

  /**
   * Decides the remaining takes from local counters, which are charged whole or not at all. Only
   * takes that count first are charged in any case, each as far as it has room.
   */
  private decideFromShares(
    takes: readonly PlannedTake[],
    storeOutcomes: readonly (FallbackOutcome | undefined)[],
    { spends, counts, now }: SpendingOptions,
  ): Pick<FallbackDecision, 'allowed' | 'spendings'> & {
    readonly outcomes: readonly FallbackOutcome[]
  } {
    const open = takes.filter((_, i) => storeOutcomes[i] === undefined)
    const shares = open.map((take) => this.shareOf(take))
    const together = this.takeFromShares(shares, spends, now)
    const allowed = passes(together)
    const isCounted = (i: number) =>
      counts && !(spends && allowed) && open[i]?.overdraw === true && fits(together[i])
    const answers = together.map((answer, i) => {
      const share = shares[i]
      if (share === undefined || !isCounted(i)) return answer
      return this.takeFromShares([share], true, now)[0] ?? answer
    })
    const outcomes: FallbackOutcome[] = []
    const spendings: (Spending | undefined)[] = []
    let next = 0
    for (const [i, take] of takes.entries()) {
      const known = storeOutcomes[i]
      const answer = answers[next]
      const share = shares[next]
      if (known !== undefined || answer === undefined || share === undefined) {
        outcomes.push(known ?? CLOSED)
        spendings.push(undefined)
        continue
      }
      const isTaken = isCounted(next) || (allowed && spends)
      next += 1
      // A block takes no units: to charge it would begin one.
      const isSpent = isTaken && take.amount > 0 && !isBlock(take.limit)
      const outcome = fromShare(answer, take.limit)
      // Places are given back here when the call ends, and the store is told of none.
      const isPlaces = isConcurrency(take.limit)
      outcomes.push(isPlaces && isSpent ? { ...outcome, granted: answer.granted } : outcome)
      const isReturnable = isSpent && !isPlaces
      spendings.push(isReturnable ? { take, share: share.limit, at: answer.at } : undefined)
    }
    return { allowed, outcomes, spendings }
  }

  /** Takes from all shares or from none, each at its own time. */
  private takeFromShares(
    shares: readonly Take[],
    spends: boolean,
    now: number,
  ): readonly FallbackOutcome[] {
    const { sync } = this.#counters
    const run = (verb: 'take' | 'peek', takes: readonly Take[]): readonly FallbackOutcome[] =>
      sync[verb]([takes])[0] ?? NO_ANSWER
    const times = shares.map(({ limit }) => this.#placeInWindow(limit))
    this.#at = now
    // Time advances between the two readings; only a limit near an edge is placed before now.
    if (times.every((at) => at >= now)) return run(spends ? 'take' : 'peek', shares)
    const runEach = (verb: 'take' | 'peek') =>
      shares.flatMap((share, i) => {
        this.#at = times[i] ?? now
        return run(verb, [share])
      })
    // This is synchronous: what all of them had room for they still have.
    const peeked = runEach('peek')
    return spends && passes(peeked) ? runEach('take') : peeked
  }

  /** The take of a share. It takes all or nothing: a share owes nothing. */
  private shareOf({ key, limit, amount, gate, holder, compiled }: PlannedTake): Take {
    if (isBlock(limit)) return { key, limit, amount, atLeast: undefined }
    const { posture } = compiled
    const factor = typeof posture === 'string' ? 1 : posture.local
    const nodes = Math.max(1, Math.floor(this.#fleetSize()) || 1)
    const share = this.#shares.get(compiled, factor, nodes, limit === compiled.limit)
    const counted = this.#processLimits.get(share)
    return { key, limit: counted, amount, atLeast: undefined, gate, holder }
  }
}

interface SpendingOptions {
  /** Whether takes are charged if all have room. */
  readonly spends: boolean
  /** Whether takes that count first are charged although others have no room. */
  readonly counts: boolean
  readonly now: number
}

interface GroupOptions {
  readonly spends: boolean
  readonly now: number
  /** Receives the postures of the limits that the store did not answer. */
  readonly postures: Record<string, PostureName>
}

interface DecidedGroup extends AlternativeFallback {
  readonly outcomes: readonly FallbackOutcome[]
  /** Whether the store did not answer a limit of the group. */
  readonly isSilent: boolean
  /** Whether a refusal does not depend on a posture. */
  readonly isCertain: boolean
}

const NO_ANSWER: readonly FallbackOutcome[] = []

const fits = (answer: FallbackOutcome | undefined) => answer?.retryAfterMs === 0

/**
 * The outcome of a share. A cost above the share may fit into the limit itself later, so the wait
 * is finite. `granted` is 0, because a receipt has nothing to return to the store. `remaining` is
 * at most the capacity of the limit, because headers show both.
 */
function fromShare(answer: FallbackOutcome, limit: Limit): FallbackOutcome {
  const { remaining, resetAfterMs, retryAfterMs, delayMs, at, state } = answer
  const retry = retryAfterMs ?? RETRY_AFTER_MS
  return {
    granted: 0,
    remaining: Math.min(remaining, limit.capacity),
    resetAfterMs: withinLease(resetAfterMs, limit),
    retryAfterMs: retry,
    delayMs,
    at,
    state,
    posture: 'local',
  }
}

/**
 * The outcome that needs no counter: an open rule as if nothing were used, a closed rule refuses,
 * and a cost above the capacity is always refused. Undefined if a share must decide.
 */
function withoutCounter(take: PlannedTake, now: number): FallbackOutcome | undefined {
  const posture = nameOf(take.compiled.posture)
  const fresh = unused(take, now, posture)
  if (fresh.retryAfterMs === null || posture === 'open') return fresh
  if (posture === 'local') return undefined
  return take.amount === 0 && take.gate !== true ? fresh : { ...CLOSED, at: now }
}

function unused(take: PlannedTake, now: number, posture: PostureName): FallbackOutcome {
  const { remaining, resetAfterMs, retryAfterMs, delayMs, at } = stepOf(take, undefined, now)
  return { granted: 0, remaining, resetAfterMs, retryAfterMs, delayMs, at, posture }
}

const CLOSED: FallbackOutcome = {
  granted: 0,
  remaining: 0,
  resetAfterMs: RETRY_AFTER_MS,
  retryAfterMs: RETRY_AFTER_MS,
  delayMs: 0,
  at: 0,
  posture: 'closed',
}

/** Passes a shadow group that the store did not answer completely. */
function passSilent(
  takes: readonly PlannedTake[],
  answers: Groups<Answer> | undefined,
  group: number,
  now: number,
): readonly FallbackOutcome[] {
  const groupAnswers = takes.map((_, i) => answerAt(answers, group, i))
  if (isAnswered(groupAnswers)) return groupAnswers
  return groupAnswers.map((answer, i) => {
    if (typeof answer !== 'string') return { ...answer, retryAfterMs: 0 }
    const capacity = takes[i]?.limit.capacity ?? 0
    return {
      ...CLOSED,
      remaining: capacity,
      resetAfterMs: 0,
      retryAfterMs: 0,
      at: now,
      posture: 'open',
    }
  })
}

function isAnswered(answers: readonly Answer[]): answers is readonly Exclude<Answer, string>[] {
  return answers.every((answer) => typeof answer !== 'string')
}

function nameOf(posture: Posture): PostureName {
  return typeof posture === 'string' ? posture : 'local'
}
