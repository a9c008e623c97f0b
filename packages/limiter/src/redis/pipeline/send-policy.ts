/**
 * Decides when a batch is sent to one Redis node.
 *
 * A decision is sent in the turn of the event loop in which it was requested, together with the
 * others of that turn: waiting for the batch in flight to return would double its latency. It waits
 * for others only while Redis is the bottleneck, because then it would wait in Redis anyway, and
 * larger batches need less of Redis' time per decision. There are two signs of that:
 *
 * - So much work of this process is queued behind the batch that Redis is running that Redis stays
 *   busy until a reply and the next batch have travelled. So more can wait here for a reply.
 * - Replies take far longer than the network and the work of this process explain: other clients
 *   keep Redis busy, perhaps a fleet whose nodes all send single decisions. Batches are then sent
 *   one after the other, and only a few more at once: those that are full or have waited long.
 *
 * Times are arguments, in milliseconds of a monotonic clock.
 */

/** The largest cost of a batch, in plain takes: about 0.5 ms in which Redis serves no one else. */
export const BATCH_COST_MAX = 128
/** The most batches in flight. */
const IN_FLIGHT_MAX = 64
/** A full batch is always sent while less cost than this is in flight: 2 ms of Redis. */
const IN_FLIGHT_COST_MAX = 4 * BATCH_COST_MAX

/** With less cost in flight than this, each decision is sent at once. */
const FEW_IN_FLIGHT = 4
/** With up to this cost in flight, chunks of this cost are sent at once; above, batches pay off. */
const SOME_IN_FLIGHT = 16
const CHUNK_COST = 8

/** While Redis is behind: the least cost worth sending, by the number of batches in flight. */
const WORTH_SENDING = [1, BATCH_COST_MAX / 2, BATCH_COST_MAX, BATCH_COST_MAX] as const
/** While Redis is behind: operations that have waited this long are sent even if they are few. */
const PATIENCE_MS = 2

/** Redis is behind if replies take this much longer than twice the network round trip. */
const BEHIND_MS = 1
/** This many recent replies have to agree, because a single one may have been delayed. */
const RECENT_REPLIES = 8
/** The round trip is the shortest of these periods, because Redis may be busy for minutes. */
const PERIODS = 10
const PERIOD_MS = 30_000

/** The shortest plausible round trip, whatever a clock says. */
const TRIP_MS_LEAST = 0.05

/** The time Redis needs for a script, and for each plain take until that is measured. */
const SCRIPT_MS = 0.01
const TAKE_MS_AT_FIRST = 0.004
const TAKE_MS_LEAST = 0.001
const TAKE_MS_MOST = 0.02
/** Smaller batches are too noisy to measure the time of a take. */
const LEARN_FROM_COST = 16
/** A shorter time is adopted at once, a longer one by this fraction of the difference. */
const LEARN_SLOWER = 1 / 64

/** A batch in flight. */
export class SentBatch {
  readonly cost: number
  readonly scripts: number
  readonly sentMs: number
  /** The work of this process that Redis had to do before this batch. */
  readonly aheadMs: number

  constructor(cost: number, scripts: number, sentMs: number, aheadMs: number) {
    this.cost = cost
    this.scripts = scripts
    this.sentMs = sentMs
    this.aheadMs = aheadMs
  }
}

export class SendPolicy {
  /** Oldest first, which is the order of the replies. */
  readonly #inFlight: SentBatch[] = []
  #costInFlight = 0
  #scriptsInFlight = 0
  #lastSentMs = -Infinity
  /** Ring of how long the last replies took beyond the work of this process. */
  readonly #recentMs = new Float64Array(RECENT_REPLIES)
  #nextRecent = 0
  /** Ring of the shortest round trip of each period. */
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

  /** The shortest round trip of the remembered periods; infinite before the first. */
  get shortestTripMs(): number {
    return this.#shortestTripMs
  }

  /** The time Redis needs for a plain take, as measured so far. */
  get takeMs(): number {
    return this.#takeMs
  }

  /** Whether other clients keep Redis busy for far longer than the network round trip. */
  get isBehind(): boolean {
    const most = 2 * this.#shortestTripMs + BEHIND_MS
    for (const recentMs of this.#recentMs) if (recentMs <= most) return false
    return true
  }

  /** Forgets all measurements, because another server may answer from now on. */
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

  /** Whether a batch is sent now, given the cost of the waiting operations. */
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
   * Whether waiting operations are sent before this turn of the event loop ends, so that Redis
   * works while this process still handles the results of one reply. Otherwise the calls of a few
   * callers would all end up in one batch, and this process and Redis would idle in turn.
   */
  sendsAtOnce(queuedCost: number, nowMs: number): boolean {
    const isWorth =
      this.#costInFlight < FEW_IN_FLIGHT ||
      (this.#costInFlight <= SOME_IN_FLIGHT && queuedCost >= CHUNK_COST)
    return isWorth && this.maySend(queuedCost, nowMs)
  }

  /**
   * After how long to check the waiting operations again if no reply arrives; undefined if only a
   * reply can change the decision.
   */
  retryInMs(nowMs: number): number | undefined {
    const isWaiting = this.isBehind && WORTH_SENDING[this.#inFlight.length] !== undefined
    return isWaiting ? this.patienceMs(nowMs) : undefined
  }

  /** Records that a batch is sent. The returned batch is to be passed to `onCompleted`. */
  onSent(cost: number, scripts: number, nowMs: number): SentBatch {
    const batch = new SentBatch(cost, scripts, nowMs, this.workMs())
    this.#inFlight.push(batch)
    this.#costInFlight += cost
    this.#scriptsInFlight += scripts
    this.#lastSentMs = nowMs
    return batch
  }

  /** Records that a batch is no longer in flight, answered or not. */
  onCompleted(batch: SentBatch): void {
    const place = this.#inFlight[0] === batch ? 0 : this.#inFlight.indexOf(batch)
    if (place < 0) return
    if (place === 0) this.#inFlight.shift()
    else this.#inFlight.splice(place, 1)
    this.#costInFlight -= batch.cost
    this.#scriptsInFlight -= batch.scripts
  }

  /**
   * Records an answer; `storeUs` is when its script began, or undefined if a test sets the time.
   */
  onAnswered(batch: SentBatch, nowMs: number, storeUs: number | undefined): void {
    const roundTripMs = nowMs - batch.sentMs
    const ownMs = batch.aheadMs + batch.scripts * SCRIPT_MS + batch.cost * this.#takeMs
    this.#roundTripMs = roundTripMs
    this.#recentMs[this.#nextRecent] = roundTripMs - ownMs
    this.#nextRecent = (this.#nextRecent + 1) % RECENT_REPLIES
    this.learnRoundTrip(roundTripMs, nowMs)
    this.learnTake(batch, nowMs, storeUs)
  }

  /** Records a round trip of a batch, or of a command that costs Redis nearly nothing. */
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

  /** The estimated work that Redis has to do for this process. */
  private workMs(): number {
    return this.#scriptsInFlight * SCRIPT_MS + this.#costInFlight * this.#takeMs
  }

  /** The same without the batch that Redis answers next. */
  private workBehindFirstMs(): number {
    const first = this.#inFlight[0]
    if (first === undefined) return 0
    return this.workMs() - first.scripts * SCRIPT_MS - first.cost * this.#takeMs
  }

  /** Spreads batches evenly over the time that they are in flight. */
  private patienceMs(nowMs: number): number {
    const apartMs = Math.max(PATIENCE_MS, this.#roundTripMs / WORTH_SENDING.length)
    return this.#lastSentMs + apartMs - nowMs
  }

  /**
   * Learns the time of a take. Two scripts that wait in Redis at the same time run one after the
   * other, so the first took at most the time between the two starts. Work of other clients between
   * them is included.
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
