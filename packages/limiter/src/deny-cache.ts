/**
 * Remembers refusals briefly, so that a blocked caller costs one store call per second.
 *
 * An entry keeps the counter's last known state, not a verdict: the algorithm runs on it again with
 * the cost of the new call, at a time that is never behind the store's. Other nodes can only have
 * taken more since, so where this refuses, the store would too; only units that another node gave
 * back are seen late, and no entry lives longer than `denyCacheMs` after its call was sent. Shortly
 * before it expires, one call goes to the store so that the others need not. A refusal caused by
 * units that another call only holds is not remembered, nor one by calls in flight: they may end at
 * any moment.
 *
 * The cache is set-associative: a set holds eight counters, and a counter that finds its set full
 * is not remembered.
 */
import {
  layoutOf,
  isBlock,
  isChargedOnRefusal,
  isConcurrency,
  type CounterKey,
  type DecisionExtras,
  type Limit,
  type Outcome,
  type Plan,
  type PlannedTake,
  stepOf,
} from '@sluice/core'
import type { Answer, Groups } from './store.js'

const WAYS = 8
const SETS = 16_384
/** The most refusals remembered; 8 MB. */
export const DENIED_MAX = SETS * WAYS

const KEY_WORDS = 2
/** When it expires, when to probe the store, its format, and up to four numbers of its state. */
const ENTRY_NUMBERS = 7
const PROBE = 1
const FORMAT = 2
const STATE = 3
/**
 * How long before an entry expires one call probes the store while the others are still refused.
 * Otherwise all calls that arrive until the store answers would go to it.
 */
const PROBE_MS = 50
/**
 * Added to the format of a counter without a state: only amounts above its capacity are refused.
 */
const UNUSED = 16

const NO_SHADOWS: readonly string[] = []

/**
 * The limits that are known to refuse a call, as a plan of their own, what they say, and how old
 * the oldest of their states is. One object, because refusals come in floods.
 */
export class KnownRefusal implements Plan, DecisionExtras {
  readonly matched: Plan['matched']
  readonly groups: Plan['groups']
  readonly shadows = NO_SHADOWS
  readonly outcomes: Groups<Outcome>
  readonly staleMs: number

  constructor(
    matched: Plan['matched'],
    takes: readonly PlannedTake[],
    outcomes: readonly Outcome[],
    staleMs: number,
  ) {
    this.matched = matched
    this.groups = [takes]
    this.outcomes = [outcomes]
    this.staleMs = staleMs
  }
}

/** When a call was sent: by the clock, and by the count of invalidations so far. */
export interface SentCall {
  readonly sentMs: number
  readonly generation: number
}

export class DenyCache {
  readonly #lifeMs: number
  readonly #latestTime: () => number
  readonly #keys = new Int32Array(DENIED_MAX * KEY_WORDS)
  readonly #entries = new Float64Array(DENIED_MAX * ENTRY_NUMBERS)
  /** Set for logs only: their entries are valid for exactly this limit. */
  readonly #limits = new Map<number, Limit>()
  /**
   * By set, the generation at which one of its counters was invalidated; older answers are stale.
   */
  readonly #forgottenAt = new Float64Array(SETS)
  #clearedAt = 0
  #generation = 0
  #aliveUntilMs = 0

  /** `latestTime` is an upper bound of the store's time. */
  constructor(lifeMs: number, latestTime: () => number) {
    this.#lifeMs = lifeMs
    this.#latestTime = latestTime
  }

  /** Grows with every invalidation; recorded when a call is sent. */
  get generation(): number {
    return this.#generation
  }

  /**
   * The refusal of a call that one of its enforced limits is known to refuse, with only the limits
   * that do. Undefined if the store must decide, also because it has to charge the refusal.
   * `group` is the group of the plan that is looked at.
   */
  refuse(plan: Plan, nowMs: number, group = 0): KnownRefusal | undefined {
    if (nowMs >= this.#aliveUntilMs) return undefined
    const takes = plan.groups[group]
    if (takes === undefined) return undefined
    let refusing: PlannedTake[] | undefined
    let outcomes: Outcome[] = []
    let staleMs = 0
    for (let i = 0; i < takes.length; i++) {
      const take = takes[i]
      if (take === undefined) continue
      if (isChargedOnRefusal(take)) return undefined
      const slot = this.find(take.key, nowMs)
      const outcome = slot === -1 ? undefined : this.run(slot, take)
      if (outcome === undefined) {
        // Only the store can begin the block of a limit that refuses.
        if (isBlock(take.limit) && refusing?.at(-1)?.compiled === take.compiled) return undefined
        continue
      }
      if (this.claimProbe(slot, nowMs)) return undefined
      staleMs = Math.max(staleMs, nowMs - this.endMs(slot) + this.#lifeMs)
      if (refusing === undefined) {
        refusing = [take]
        outcomes = [outcome]
      } else {
        refusing.push(take)
        outcomes.push(outcome)
      }
    }
    if (refusing === undefined) return undefined
    return new KnownRefusal(plan.matched, refusing, outcomes, Math.round(staleMs))
  }

  /** Remembers the limits that refused a call. */
  remember(takes: readonly PlannedTake[], answers: readonly Answer[], sent: SentCall): void {
    if (sent.generation < this.#clearedAt) return
    for (let i = 0; i < takes.length; i++) {
      const take = takes[i]
      const answer = answers[i]
      if (take === undefined || answer === undefined || typeof answer === 'string') continue
      if (answer.retryAfterMs === 0 || answer.held === true || isConcurrency(take.limit)) continue
      this.insert(take, answer, sent)
    }
  }

  /** Invalidates a counter to which units were returned, including answers in flight. */
  forget(key: CounterKey, nowMs: number): void {
    this.#generation += 1
    this.#forgottenAt[setOf(key)] = this.#generation
    const slot = this.find(key, nowMs)
    if (slot !== -1) this.#entries[slot * ENTRY_NUMBERS] = 0
  }

  /** Invalidates everything, because other rules are active. */
  clear(): void {
    this.#generation += 1
    this.#clearedAt = this.#generation
    this.#entries.fill(0)
    this.#limits.clear()
    this.#aliveUntilMs = 0
  }

  /** Whether this call is the one that probes the store. */
  private claimProbe(slot: number, nowMs: number): boolean {
    const at = slot * ENTRY_NUMBERS + PROBE
    if (nowMs < (this.#entries[at] ?? 0)) return false
    this.#entries[at] = Infinity
    return true
  }

  private find({ hi, lo }: CounterKey, nowMs: number): number {
    const keys = this.#keys
    const first = (lo & (SETS - 1)) * WAYS
    for (let slot = first; slot < first + WAYS; slot++) {
      if (keys[slot * KEY_WORDS] !== hi || keys[slot * KEY_WORDS + 1] !== lo) continue
      return this.endMs(slot) > nowMs ? slot : -1
    }
    return -1
  }

  /** The refusal of this take by the counter; undefined if it does not refuse. */
  private run(slot: number, take: PlannedTake): Outcome | undefined {
    const { limit } = take
    const now = this.#latestTime()
    const at = slot * ENTRY_NUMBERS + STATE
    const format = this.#entries[at - STATE + FORMAT]
    // Without the store's clock there is no upper bound of its time.
    if (!Number.isFinite(now)) return undefined
    if (format === limit.format + UNUSED) return refusal(undefined, take, now)
    if (format !== limit.format) return undefined
    const layout = layoutOf(limit)
    if (layout === undefined) return this.runLog(slot, limit, unitsOf(take), now)
    return refusal(layout.read(this.#entries, at), take, now)
  }

  private runLog(slot: number, limit: Limit, amount: number, now: number): Outcome | undefined {
    const at = slot * ENTRY_NUMBERS + STATE
    const [askedFor, retryAt = 0, remaining = 0, resetAt = 0] = this.#entries.subarray(at, at + 4)
    // The wait was rounded up: in its last millisecond only the store can decide.
    const isOver = retryAt - now < 1000
    // No wait is longer than a window, so the store's clock has stepped back.
    const isFromAnotherClock = retryAt - now > limit.windowUs
    if (this.#limits.get(slot) !== limit || askedFor !== amount) return undefined
    if (isOver || isFromAnotherClock) return undefined
    return {
      granted: 0,
      remaining,
      resetAfterMs: Math.max(0, Math.ceil((resetAt - now) / 1000)),
      retryAfterMs: Math.ceil((retryAt - now) / 1000),
      delayMs: 0,
      at: now,
    }
  }

  private insert(take: PlannedTake, answer: Exclude<Answer, string>, sent: SentCall): void {
    const { key, limit } = take
    const { sentMs } = sent
    if (sent.generation < (this.#forgottenAt[setOf(key)] ?? 0)) return
    const slot = this.slotFor(key, sentMs)
    if (slot === -1) return
    const entries = this.#entries
    const at = slot * ENTRY_NUMBERS + STATE
    const layout = layoutOf(limit)
    const isLog = layout === undefined && answer.retryAfterMs !== null
    // Its wait may be for another amount than its own.
    if (isLog && take.overdraw === true) return
    if (layout !== undefined && answer.state !== undefined) layout.write(answer.state, entries, at)
    if (isLog) {
      entries[at] = unitsOf(take)
      entries[at + 1] = answer.at + (answer.retryAfterMs ?? 0) * 1000
      entries[at + 2] = answer.remaining
      entries[at + 3] = answer.at + answer.resetAfterMs * 1000
      this.#limits.set(slot, limit)
    }
    const isKnown = isLog || (layout !== undefined && answer.state !== undefined)
    entries[at - STATE] = sentMs + this.#lifeMs
    entries[at - STATE + PROBE] = sentMs + this.#lifeMs - Math.min(PROBE_MS, this.#lifeMs / 4)
    entries[at - STATE + FORMAT] = isKnown ? limit.format : limit.format + UNUSED
    this.#keys[slot * KEY_WORDS] = key.hi
    this.#keys[slot * KEY_WORDS + 1] = key.lo
    this.#aliveUntilMs = Math.max(this.#aliveUntilMs, sentMs + this.#lifeMs)
  }

  /** The slot of the key, else an expired one, else -1. */
  private slotFor({ hi, lo }: CounterKey, nowMs: number): number {
    const keys = this.#keys
    const first = (lo & (SETS - 1)) * WAYS
    let free = -1
    for (let slot = first; slot < first + WAYS; slot++) {
      if (keys[slot * KEY_WORDS] === hi && keys[slot * KEY_WORDS + 1] === lo) return slot
      if (free === -1 && this.endMs(slot) <= nowMs) free = slot
    }
    return free
  }

  private endMs(slot: number): number {
    return this.#entries[slot * ENTRY_NUMBERS] ?? 0
  }
}

function setOf({ lo }: CounterKey): number {
  return lo & (SETS - 1)
}

/** The units for which a log must have room: a gate takes none and needs one. */
function unitsOf({ amount, gate }: PlannedTake): number {
  return gate === true ? 1 : amount
}

function refusal(state: unknown, take: PlannedTake, now: number): Outcome | undefined {
  const step = stepOf(take, state, now)
  // The store rebases a state of another clock once; here it would be rebased at every call.
  return step.retryAfterMs === 0 || step.rebased !== undefined ? undefined : step
}
