/**
 * Decides when a batch leaves for one Redis node.
 *
 * A decision leaves in the turn of the event loop in which it was asked for, with what else that
 * turn asks: waiting for the batch in flight to return would double its latency. It waits for
 * company only while Redis is the bottleneck, because then it would wait there anyway, and larger
 * batches take less of Redis' time for each decision. There are two signs of that:
 *
 * - Behind the batch that Redis is at lies so much more of this process that Redis has work until a
 *   reply and the next batch have travelled. So more can wait here until a reply arrives.
 * - Replies take far longer than the way and the work of this process explain: others keep Redis
 *   busy, perhaps a fleet of which every node sends single decisions. Batches then leave one after
 *   the other, and few more at once: those that are full, or that have waited for long.
 *
 * Times are arguments, in milliseconds of a clock that never steps.
 */

/** What a batch may cost, in plain takes: about 0.5 ms of Redis, which serves no one else then. */
export const BATCH_COST_MAX = 128
/** Batches in flight at most. */
const IN_FLIGHT_MAX = 64
/** A full batch leaves in any case while less than this is in flight: 2 ms of Redis. */
const IN_FLIGHT_COST_MAX = 4 * BATCH_COST_MAX

/** With less than this in flight each decision leaves at once. */
const FEW_IN_FLIGHT = 4
/** With no more than this in flight so many leave at once; beyond that, batches do better. */
const SOME_IN_FLIGHT = 16
const CHUNK_COST = 8

/** While Redis is behind: by the batches in flight, what is worth sending another. */
const WORTH_SENDING = [1, BATCH_COST_MAX / 2, BATCH_COST_MAX, BATCH_COST_MAX] as const
/** While Redis is behind: what has waited so long leaves although it is little. */
const PATIENCE_MS = 2

/** Redis is behind where replies take so much longer than twice the way. */
const BEHIND_MS = 1
/** So many of the last replies have to agree on that: a single one may have been delayed. */
const RECENT_REPLIES = 8
/** The way is the shortest round trip of these periods: Redis may be busy for minutes. */
const PERIODS = 10
const PERIOD_MS = 30_000

/** No way is shorter, whatever a clock says. */
const TRIP_MS_LEAST = 0.05

/** What Redis needs for a script, and for each plain take in it until that is learnt. */
const SCRIPT_MS = 0.01
const TAKE_MS_AT_FIRST = 0.004
const TAKE_MS_LEAST = 0.001
const TAKE_MS_MOST = 0.02
/** Smaller batches say little about the time of a take. */
const LEARN_FROM_COST = 16
/** A shorter time is believed at once, a longer one by this share of the difference. */
const LEARN_SLOWER = 1 / 64

/** A batch in flight. */
export class SentBatch {
  readonly cost: number
  readonly scripts: number
  readonly sentMs: number
  /** What Redis had to do before it for this process. */
  readonly aheadMs: number

  constructor(cost: number, scripts: number, sentMs: number, aheadMs: number) {
    this.cost = cost
    this.scripts = scripts
    this.sentMs = sentMs
    this.aheadMs = aheadMs
  }
}

export class SendPolicy {
  /** Oldest first, as Redis answers. */
  readonly #inFlight: SentBatch[] = []
  #costInFlight = 0
  #scriptsInFlight = 0
  #lastSentMs = -Infinity
  /** What the last replies took beyond the work of this process; a ring. */
  readonly #recentMs = new Float64Array(RECENT_REPLIES)
  #nextRecent = 0
  /** The shortest round trip of each period; a ring. */
  readonly #shortestMs = new Float64Array(PERIODS)
  #period = 0
  #periodEndsMs = -Infinity
  #shortestTripMs = Infinity
  #roundTripMs = 0
  #takeMs = TAKE_MS_AT_FIRST
  /** The batch that was answered last: when, at which time of the store, and its cost. */
  #answeredMs = -Infinity
  #answeredStoreMs = NaN
  #answeredCost = 0

  constructor() {
    this.reset()
  }

  get inFlight(): number {
    return this.#inFlight.length
  }

  /** The shortest round trip that is remembered; infinite before the first. */
  get shortestTripMs(): number {
    return this.#shortestTripMs
  }

  /** What Redis needs for a plain take, as far as is known. */
  get takeMs(): number {
    return this.#takeMs
  }

  /** Whether others keep Redis busy for far longer than the way takes. */
  get isBehind(): boolean {
    const most = 2 * this.#shortestTripMs + BEHIND_MS
    for (const recentMs of this.#recentMs) if (recentMs <= most) return false
    return true
  }

  /** Forgets what was learnt: another server may answer from now on, in another place. */
  reset(): void {
    this.#recentMs.fill(0)
    this.#shortestMs.fill(Infinity)
    this.#periodEndsMs = -Infinity
    this.#shortestTripMs = Infinity
    this.#roundTripMs = 0
    this.#takeMs = TAKE_MS_AT_FIRST
    this.#answeredMs = -Infinity
    this.#answeredStoreMs = NaN
  }

  /** Whether a batch of what waits, of this cost, leaves now. */
  maySend(queuedCost: number, nowMs: number): boolean {
    const inFlight = this.#inFlight.length
    if (queuedCost <= 0 || inFlight >= IN_FLIGHT_MAX) return false
    if (inFlight === 0) return true
    if (queuedCost >= BATCH_COST_MAX && this.#costInFlight < IN_FLIGHT_COST_MAX) return true
    if (this.#shortestTripMs === Infinity) return this.#costInFlight < IN_FLIGHT_COST_MAX
    if (!this.isBehind)
      return this.workBehindFirstMs() < Math.max(TRIP_MS_LEAST, this.#shortestTripMs)
    const worth = WORTH_SENDING[inFlight] ?? Infinity
    return queuedCost >= worth || (worth !== Infinity && this.patienceMs(nowMs) <= 0)
  }

  /**
   * Whether what waits leaves at once, before this turn of the event loop has ended: so that Redis
   * works while this process still handles what one reply brought. Otherwise few callers would all
   * end up in one batch, and this process and Redis would sleep in turn.
   */
  sendsAtOnce(queuedCost: number, nowMs: number): boolean {
    const isWorth =
      this.#costInFlight < FEW_IN_FLIGHT ||
      (this.#costInFlight <= SOME_IN_FLIGHT && queuedCost >= CHUNK_COST)
    return isWorth && this.maySend(queuedCost, nowMs)
  }

  /**
   * After how long what waits now should be looked at again although no reply came; undefined: a
   * reply is all there is to wait for.
   */
  retryInMs(nowMs: number): number | undefined {
    const isWaiting = this.isBehind && WORTH_SENDING[this.#inFlight.length] !== undefined
    return isWaiting ? this.patienceMs(nowMs) : undefined
  }

  /** A batch leaves. What it returns is to be handed to `landed`. */
  onSent(cost: number, scripts: number, nowMs: number): SentBatch {
    const batch = new SentBatch(cost, scripts, nowMs, this.workMs())
    this.#inFlight.push(batch)
    this.#costInFlight += cost
    this.#scriptsInFlight += scripts
    this.#lastSentMs = nowMs
    return batch
  }

  /** A batch is not in flight any more, with or without an answer. */
  onCompleted(batch: SentBatch): void {
    const place = this.#inFlight[0] === batch ? 0 : this.#inFlight.indexOf(batch)
    if (place < 0) return
    if (place === 0) this.#inFlight.shift()
    else this.#inFlight.splice(place, 1)
    this.#costInFlight -= batch.cost
    this.#scriptsInFlight -= batch.scripts
  }

  /** A batch was answered; `storeUs` is when its script began; undefined: a test passes time in. */
  onAnswered(batch: SentBatch, nowMs: number, storeUs: number | undefined): void {
    const roundTripMs = nowMs - batch.sentMs
    const ownMs = batch.aheadMs + batch.scripts * SCRIPT_MS + batch.cost * this.#takeMs
    this.#roundTripMs = roundTripMs
    this.#recentMs[this.#nextRecent] = roundTripMs - ownMs
    this.#nextRecent = (this.#nextRecent + 1) % RECENT_REPLIES
    this.learnRoundTrip(roundTripMs, nowMs)
    this.learnTake(batch, nowMs, storeUs)
  }

  /** Something that costs Redis nearly nothing, or a batch, took so long. */
  learnRoundTrip(roundTripMs: number, nowMs: number): void {
    if (nowMs >= this.#periodEndsMs) {
      this.#period = (this.#period + 1) % PERIODS
      this.#shortestMs[this.#period] = Infinity
      this.#periodEndsMs = nowMs + PERIOD_MS
      this.#shortestTripMs = Math.min(...this.#shortestMs)
    }
    if (roundTripMs >= (this.#shortestMs[this.#period] ?? 0)) return
    this.#shortestMs[this.#period] = roundTripMs
    if (roundTripMs < this.#shortestTripMs) this.#shortestTripMs = roundTripMs
  }

  /** What Redis has to do for this process, as far as is known. */
  private workMs(): number {
    return this.#scriptsInFlight * SCRIPT_MS + this.#costInFlight * this.#takeMs
  }

  /** The same without the batch that Redis answers next. */
  private workBehindFirstMs(): number {
    const first = this.#inFlight[0]
    if (first === undefined) return 0
    return this.workMs() - first.scripts * SCRIPT_MS - first.cost * this.#takeMs
  }

  /** Batches leave evenly spread over the time that they are under way. */
  private patienceMs(nowMs: number): number {
    const apartMs = Math.max(PATIENCE_MS, this.#roundTripMs / WORTH_SENDING.length)
    return this.#lastSentMs + apartMs - nowMs
  }

  /**
   * Two scripts that were at Redis at the same time run one after the other, so the first took no
   * longer than from its start to that of the second. What others do between them counts too.
   */
  private learnTake(batch: SentBatch, nowMs: number, storeUs: number | undefined): void {
    const storeMs = storeUs === undefined ? NaN : storeUs / 1000
    const wasWaiting = this.#answeredMs - batch.sentMs > this.#shortestTripMs
    const tookMs = storeMs - this.#answeredStoreMs - SCRIPT_MS
    if (wasWaiting && this.#answeredCost >= LEARN_FROM_COST && tookMs > 0) {
      const found = Math.max(TAKE_MS_LEAST, tookMs / this.#answeredCost)
      const change = found - this.#takeMs
      this.#takeMs += change < 0 ? change : change * LEARN_SLOWER
      this.#takeMs = Math.min(TAKE_MS_MOST, this.#takeMs)
    }
    this.#answeredMs = nowMs
    this.#answeredStoreMs = storeMs
    this.#answeredCost = batch.scripts === 1 ? batch.cost : 0
  }
}
