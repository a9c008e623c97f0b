/**
 * What answers where the store is silent: each rule by its posture. What the store did answer
 * stands. Shadow rules pass, and are asked nowhere else.
 */
import {
  algorithmOf,
  type Extras,
  type Limit,
  type Outcome,
  type Plan,
  type PlannedTake,
  type Posture,
  type PostureName,
  passes,
  type Source,
  type Take,
} from '@sluice/core'
import { placedStore } from '../memory/memory-store.js'
import type { Answer, Groups } from '../store.js'
import { Shares } from './share.js'

/** An outcome, and whose it is where the store's own is missing. */
export interface Told extends Outcome {
  readonly state?: unknown
  readonly posture?: PostureName | undefined
}

/** What an admitted call took here instead of from the store. */
export interface Spending {
  readonly take: PlannedTake
  /** The share it was taken from; undefined where no counter of this process was charged. */
  readonly share: Limit | undefined
  readonly at: number
}

export interface PostureAnswer {
  readonly allowed: boolean
  readonly outcomes: Groups<Told>
  readonly source: Source
  readonly extras: Extras
  /** In the places of the enforced takes. */
  readonly spendings: readonly (Spending | undefined)[]
}

export interface PostureOptions {
  /** The most counters kept here. */
  readonly maxCounters: number
  /** The store's time, as well as it is known. */
  readonly time: () => number
  /** The time to which a unit of this limit belongs that is spent here now. @default `time` */
  readonly placeAt?: ((limit: Limit) => number) | undefined
  readonly fleetSize: () => number
}

/** What the store said to one take; where it said nothing, that it may have run. */
export function answerAt(answers: Groups<Answer> | undefined, group: number, at: number): Answer {
  return answers?.[group]?.[at] ?? 'unknown'
}

/** When to ask again where nothing here knows better. */
const RETRY_AFTER_MS = 1000

/**
 * The counters outlive the silence, or a store that comes and goes would hand out a fresh share
 * each time.
 */
export class PostureAnswers {
  readonly #counters
  readonly #shares = new Shares()
  readonly #time: () => number
  readonly #placeAt: (limit: Limit) => number
  readonly #fleetSize: () => number
  /** What the clock of the counters says: each limit is asked at a time of its own. */
  #at = 0

  constructor({ maxCounters, time, placeAt = time, fleetSize }: PostureOptions) {
    this.#time = time
    this.#placeAt = placeAt
    this.#fleetSize = fleetSize
    this.#counters = placedStore({ maxCounters, clock: { now: () => this.#at } })
  }

  /** Counters kept here. */
  get size(): number {
    return this.#counters.stats().counters
  }

  /** Decides a call; takes from the counters here only if every enforced limit lets it pass. */
  take(plan: Plan, answers: Groups<Answer> | undefined): PostureAnswer {
    return this.answer(plan, answers, true)
  }

  /** What `take` would say; takes nothing. */
  peek(plan: Plan): PostureAnswer {
    return this.answer(plan, undefined, false)
  }

  /** Returns what was taken here, because the store has taken it after all. */
  strike({ take, share, at }: Spending): void {
    if (share === undefined) return
    this.#at = this.#placeAt(share)
    this.#counters.sync.give({ key: take.key, limit: share, amount: take.amount, at })
  }

  forget(key: Take['key']): void {
    this.#counters.sync.reset(key)
  }

  private answer(plan: Plan, answers: Groups<Answer> | undefined, spends: boolean): PostureAnswer {
    const takes = plan.groups[0] ?? []
    const now = this.#time()
    const postures: Record<string, PostureName> = {}
    const told: (Told | undefined)[] = []
    let isSilent = false
    let isRefused = false
    let isCertain = false
    for (const [i, take] of takes.entries()) {
      const answer = answerAt(answers, 0, i)
      const silent = typeof answer === 'string'
      const outcome = silent ? withoutCounter(take, now) : answer
      if (silent) postures[take.of.rule] = nameOf(take.of.posture)
      const refuses = outcome !== undefined && outcome.retryAfterMs !== 0
      isSilent ||= silent
      isRefused ||= refuses
      // No posture has a say in what the store refused, or in what no limit could ever hold.
      isCertain ||= refuses && (!silent || outcome.retryAfterMs === null)
      told.push(outcome)
    }
    const local = this.askHere(takes, told, spends && !isRefused, now)
    const allowed = !isRefused && local.allowed
    const shadows = plan.groups.slice(1).map((group, g) => passSilent(group, answers, g + 1, now))
    const reason = isCertain ? undefined : 'posture'
    return {
      allowed,
      outcomes: [local.outcomes, ...shadows],
      source: isSilent ? 'posture' : 'store',
      extras: isSilent ? { postures, reason } : {},
      spendings: allowed ? local.spendings : [],
    }
  }

  /** Fills the places left open from the counters here, which are charged whole or not at all. */
  private askHere(
    takes: readonly PlannedTake[],
    told: readonly (Told | undefined)[],
    spends: boolean,
    now: number,
  ): Pick<PostureAnswer, 'allowed' | 'spendings'> & { readonly outcomes: readonly Told[] } {
    const open = takes.filter((_, i) => told[i] === undefined)
    const shares = open.map((take) => this.shareOf(take))
    const answers = this.askShares(shares, spends, now)
    const allowed = passes(answers)
    const outcomes: Told[] = []
    const spendings: (Spending | undefined)[] = []
    let next = 0
    for (const [i, take] of takes.entries()) {
      const known = told[i]
      const answer = answers[next]
      const share = shares[next]
      if (known !== undefined || answer === undefined || share === undefined) {
        outcomes.push(known ?? CLOSED)
        spendings.push(undefined)
        continue
      }
      next += 1
      outcomes.push(fromShare(answer, take.limit.capacity))
      const isSpent = allowed && spends && take.amount > 0
      spendings.push(isSpent ? { take, share: share.limit, at: answer.at } : undefined)
    }
    return { allowed, outcomes, spendings }
  }

  /** Takes from all of the shares or from none, each at its own time. */
  private askShares(shares: readonly Take[], spends: boolean, now: number): readonly Told[] {
    const { sync } = this.#counters
    const ask = (verb: 'take' | 'peek', takes: readonly Take[]): readonly Told[] =>
      sync[verb]([takes])[0] ?? NO_ANSWER
    const times = shares.map(({ limit }) => this.#placeAt(limit))
    this.#at = now
    // Time goes on while it is asked; only a limit near an edge is put back before now.
    if (times.every((at) => at >= now)) return ask(spends ? 'take' : 'peek', shares)
    const askEach = (verb: 'take' | 'peek') =>
      shares.flatMap((share, i) => {
        this.#at = times[i] ?? now
        return ask(verb, [share])
      })
    // Nothing comes between the two: what all of them had room for they still have.
    const seen = askEach('peek')
    return spends && passes(seen) ? askEach('take') : seen
  }

  private shareOf({ key, limit, amount, of }: PlannedTake): Take {
    const { posture } = of
    const factor = typeof posture === 'string' ? 1 : posture.local
    const counted = Math.floor(this.#fleetSize())
    const nodes = counted >= 1 ? counted : 1
    const share = this.#shares.of(of, factor, nodes, limit === of.limit)
    return { key, limit: share, amount, atLeast: undefined }
  }
}

const NO_ANSWER: readonly Told[] = []

/**
 * A share says what is left of it, and when. What it can never hold may fit into the limit itself,
 * which will be asked again. Nothing was granted that a receipt could give back to the store. No
 * more is left than the limit holds, even of a larger share: headers show both beside each other.
 */
function fromShare(answer: Told, capacity: number): Told {
  const { remaining, resetAfterMs, retryAfterMs, delayMs, at, state } = answer
  const retry = retryAfterMs ?? RETRY_AFTER_MS
  return {
    granted: 0,
    remaining: Math.min(remaining, capacity),
    resetAfterMs,
    retryAfterMs: retry,
    delayMs,
    at,
    state,
    posture: 'local',
  }
}

/**
 * What can be said without any counter: an open rule as if nothing were used, a closed one no, and
 * any of them to what can never fit. Undefined: the share must be asked.
 */
function withoutCounter(take: PlannedTake, now: number): Told | undefined {
  const posture = nameOf(take.of.posture)
  const fresh = unused(take, now, posture)
  if (fresh.retryAfterMs === null || posture === 'open') return fresh
  if (posture === 'local') return undefined
  return take.amount === 0 ? fresh : { ...CLOSED, at: now }
}

function unused({ limit, amount }: PlannedTake, now: number, posture: PostureName): Told {
  const step = algorithmOf(limit).take(undefined, limit, amount, now)
  const { remaining, resetAfterMs, retryAfterMs, delayMs, at } = step
  return { granted: 0, remaining, resetAfterMs, retryAfterMs, delayMs, at, posture }
}

const CLOSED: Told = {
  granted: 0,
  remaining: 0,
  resetAfterMs: RETRY_AFTER_MS,
  retryAfterMs: RETRY_AFTER_MS,
  delayMs: 0,
  at: 0,
  posture: 'closed',
}

/** A shadow group of which the store did not say everything passes. */
function passSilent(
  takes: readonly PlannedTake[],
  answers: Groups<Answer> | undefined,
  group: number,
  now: number,
): readonly Told[] {
  const said = takes.map((_, i) => answerAt(answers, group, i))
  if (isAnswered(said)) return said
  return said.map((answer, i) => {
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
