/**
 * The way to one Redis node: parts gather into batches, batches leave on one connection. When they
 * leave is decided by send-policy.ts.
 */
import { Breaker } from './breaker.js'
import type { RedisChannel, RedisCommand, RedisReply } from '../connection/driver.js'
import { InFlightBatch, type ScriptPlan } from './in-flight-batch.js'
import type { StoreObserver } from './redis-observer.js'
import type { BatchCodec } from '../protocol/batch-request.js'
import type { PartitionOp, OpHolder } from '../request/partition-op.js'
import { OpQueue } from './op-queue.js'
import { BATCH_COST_MAX, SendPolicy, type SentBatch } from './send-policy.js'
import { StoreClock } from '../server/store-clock.js'

/** A connection that says nothing for so long, though asked, is dead without knowing. */
const DEAD_AFTER_MS = 2000
/** A node that nobody asks anything is asked for its time so often: clocks drift. */
const TIME_EVERY_MS = 1000
/** How often that is looked at. */
const IDLE_CHECK_MS = TIME_EVERY_MS / 4
/** A node that did not tell its time is asked again so much later. */
const TIME_RETRY_MS = 250

export interface NodePipelineDeps {
  readonly nowMs: () => number
  readonly random: () => number
  readonly codec: BatchCodec
  readonly timeCommand: RedisCommand
  /** Sent on every new connection, and answered to nobody: see protocol/preload.ts. */
  readonly preload: readonly RedisCommand[]
  readonly deadlineMs: number
  /** The time the script decides with; 0: the store's own. */
  readonly scriptTime: () => number
  readonly observer: StoreObserver
  /** Which parts one script decides: all of them, or on a Cluster those of one partition. */
  plan(ops: readonly PartitionOp[]): readonly ScriptPlan[]
  /** Finds the lane of a part and adds it there. */
  route(op: PartitionOp): void
  /** The slot of these parts is at, or on its way to, the node of that address. */
  redirect(ops: readonly PartitionOp[], address: string, kind: 'moved' | 'ask'): void
  /** The slot of these parts is on its way elsewhere: they are asked counter by counter. */
  resendPerCounter(ops: readonly PartitionOp[]): void
  /** The server refuses a script with the counters of several partitions; some may be settled. */
  onCrossSlot(ops: readonly PartitionOp[], address: string, message: string): void
  /** A script of that partition, of more than one counter, was answered. */
  onScriptPassed(partition: number): void
  /** The topology is not what it was. */
  refreshTopology(): void
  /** The node answers, for the first time or again. */
  onAnswering(pipeline: NodePipeline): void
  /** Whether this process is too busy to blame a node for late answers. */
  isBusy(): boolean
  /** A reply was read. */
  onReply(): void
}

export class NodePipeline implements OpHolder {
  readonly channel: RedisChannel
  readonly clock: StoreClock
  readonly breaker: Breaker
  readonly #deps: NodePipelineDeps
  readonly #queue = new OpQueue(BATCH_COST_MAX)
  readonly #policy = new SendPolicy()
  /** The batch of the heavy part under way: one at a time, so that it holds up little else. */
  #heavyBatch: InFlightBatch | undefined
  #scheduled = false
  readonly #flush = () => {
    this.#scheduled = false
    while (this.maySend()) this.sendBatch()
    this.sendHeavy()
    this.flushLater()
  }
  #flushTimer: ReturnType<typeof setTimeout> | undefined
  /** Whether the node has told its time since it was connected. */
  #isTimeKnown = false
  #isTimeRequested = false
  /** Since when the node owes answers and has given none. */
  #silentSinceMs: number | undefined
  #probeTimer: ReturnType<typeof setTimeout> | undefined
  readonly #timeTimer: ReturnType<typeof setInterval>
  /** The most that a call which came while the breaker was open would have waited. */
  #longestDeadlineMs = 0
  #closed = false

  constructor(channel: RedisChannel, deps: NodePipelineDeps) {
    this.channel = channel
    this.#deps = deps
    this.clock = new StoreClock(deps.nowMs)
    this.breaker = new Breaker(deps.nowMs, deps.random)
    this.#timeTimer = setInterval(() => this.checkIdle(), IDLE_CHECK_MS)
    this.#timeTimer.unref()
    if (channel.isReady) this.onConnected()
  }

  /** Whether a part that is added now would be asked about. */
  get isAnswering(): boolean {
    return this.#isTimeKnown && !this.breaker.isOpen && this.channel.isReady
  }

  get inFlight(): number {
    return this.#policy.inFlight
  }

  /** The cost of what waits to be sent. */
  get queuedCost(): number {
    return this.#queue.cost
  }

  /** How many parts are held back, those that wait for nothing any more included. */
  get queueSize(): number {
    return this.#queue.size
  }

  /** The connection is ready, for the first time or again: another server may be behind it. */
  onConnected(): void {
    this.#isTimeKnown = false
    this.#silentSinceMs = undefined
    this.clock.forget()
    this.#policy.reset()
    this.requestTime()
    if (this.#deps.preload.length > 0) this.channel.send(this.#deps.preload, () => {})
    this.scheduleProbe()
  }

  /** Takes a part into the next batch; one that cannot be asked about is not run. */
  add(op: PartitionOp): void {
    const reason = this.reasonNotToSend(op)
    if (reason !== undefined) {
      this.#deps.observer.error(reason, this.channel.address)
      if (this.breaker.isOpen) this.onTurnedAway(op)
      op.settle('not-run')
      return
    }
    op.stage = 'queued'
    op.holder = this
    this.#queue.push(op)
    if (this.#policy.sendsAtOnce(this.#queue.lightCost, this.#deps.nowMs())) this.sendBatch()
    else this.schedule()
  }

  onDropped(op: PartitionOp): void {
    this.#queue.onSettled(op)
  }

  /**
   * A part that waits here was not sent in time. The node is blamed for that only if it owes an
   * answer to something that was sent, for as long as an answer may take.
   */
  onMissed(): void {
    if (this.silenceMs() >= this.#deps.deadlineMs) this.onFailure()
  }

  /** Sends parts by themselves, at once: to a node that does not have their slot yet. */
  sendAsking(ops: readonly PartitionOp[]): void {
    this.send(ops.map((op) => ({ ops: [op], asking: true })))
  }

  /**
   * Something left and was not answered in time. A busy process may have read the answer late, so
   * the node is not blamed then; but no process is too busy to read anything for two seconds.
   */
  onFailure(): void {
    const isDead = this.silenceMs() > DEAD_AFTER_MS
    if (this.#deps.isBusy() && !isDead) return
    const opened = isDead ? this.breaker.trip() : this.breaker.fail()
    if (!opened) return
    if (isDead) this.channel.reconnect()
    this.#longestDeadlineMs = 0
    this.#deps.observer.breakerOpened(this.channel.address)
    this.drain()
    this.scheduleProbe()
  }

  /** Something was answered in time. */
  onSuccess(): void {
    if (!this.breaker.isOpen) this.breaker.succeed()
  }

  /** A batch was answered; `storeUs` is when it ran, undefined where a test passes time in. */
  recordAnswer(batch: SentBatch, receivedMs: number, storeUs: number | undefined): void {
    this.#policy.onAnswered(batch, receivedMs, storeUs)
  }

  /** A batch is settled, and makes room for the next. */
  onCompleted(inFlightBatch: InFlightBatch, batch: SentBatch): void {
    this.#policy.onCompleted(batch)
    if (inFlightBatch === this.#heavyBatch) this.#heavyBatch = undefined
    this.onHeard()
    this.schedule()
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#timeTimer)
    clearTimeout(this.#probeTimer)
    clearTimeout(this.#flushTimer)
    this.drain()
  }

  private reasonNotToSend(op: PartitionOp): 'breaker' | 'connection' | 'overload' | undefined {
    if (this.breaker.isOpen) return 'breaker'
    if (!this.isAnswering) return 'connection'
    return this.#queue.hasRoomFor(op) ? undefined : 'overload'
  }

  /** A rule may wait longer than most: a probe that is in time for it is in time. */
  private onTurnedAway({ storeOp, owner }: PartitionOp): void {
    if (storeOp.verb !== 'take' && storeOp.verb !== 'peek') return
    this.#longestDeadlineMs = Math.max(
      this.#longestDeadlineMs,
      owner.deadlineAtMs - this.#deps.nowMs(),
    )
  }

  private drain(): void {
    giveUp(this.#queue.clear())
  }

  private schedule(): void {
    if (this.#scheduled) return
    if (!this.maySend() && !this.maySendHeavy()) {
      this.flushLater()
      return
    }
    this.#scheduled = true
    // With nothing on the wire at once; else at the end of this turn of the event loop, so that all
    // that one reply brings forth leaves together.
    if (this.#policy.inFlight === 0) queueMicrotask(this.#flush)
    else setImmediate(this.#flush)
  }

  private maySend(): boolean {
    return this.#policy.maySend(this.#queue.lightCost, this.#deps.nowMs())
  }

  private sendBatch(): void {
    this.send(this.#deps.plan(this.#queue.nextBatch()))
  }

  private maySendHeavy(): boolean {
    return this.#queue.hasHeavy && this.#heavyBatch === undefined
  }

  /** Sends the first heavy part, in a script of its own. */
  private sendHeavy(): void {
    if (!this.maySendHeavy()) return
    const op = this.#queue.nextHeavy()
    if (op !== undefined) this.send(this.#deps.plan([op]), true)
  }

  private flushLater(): void {
    if (this.#flushTimer !== undefined || this.#queue.lightCost === 0) return
    const inMs = this.#policy.retryInMs(this.#deps.nowMs())
    if (inMs === undefined) return
    this.#flushTimer = setTimeout(
      () => {
        this.#flushTimer = undefined
        this.schedule()
      },
      Math.max(1, Math.ceil(inMs)),
    )
  }

  private send(plans: readonly ScriptPlan[], isHeavy = false): void {
    if (plans.length === 0) return
    const inFlightBatch = this.batchOf(plans)
    if (inFlightBatch === undefined) return
    if (isHeavy) this.#heavyBatch = inFlightBatch
    const nowMs = this.#deps.nowMs()
    this.#silentSinceMs ??= nowMs
    inFlightBatch.send(this.#policy.onSent(inFlightBatch.cost, plans.length, nowMs))
  }

  /** What cannot be encoded was somebody's mistake, and must not be the end of the process. */
  private batchOf(plans: readonly ScriptPlan[]): InFlightBatch | undefined {
    try {
      return new InFlightBatch(this, this.#deps, plans)
    } catch (error) {
      this.#deps.observer.problem(`A batch cannot be sent: ${String(error)}`)
      for (const { ops } of plans) giveUp(ops)
      return undefined
    }
  }

  private scheduleProbe(): void {
    if (this.#closed) return
    clearTimeout(this.#probeTimer)
    const inMs = this.breaker.isOpen ? this.breaker.probeInMs() : TIME_RETRY_MS
    this.#probeTimer = setTimeout(() => this.probe(), inMs)
    this.#probeTimer.unref()
  }

  /** Goes on until the node has told its time, and in time. */
  private probe(): void {
    if (this.#isTimeKnown && !this.breaker.isOpen) return
    this.breaker.onProbe()
    if (this.silenceMs() > DEAD_AFTER_MS) this.channel.reconnect()
    else if (!this.#isTimeRequested) this.requestTime()
    this.scheduleProbe()
  }

  private checkIdle(): void {
    this.requestTimeIfIdle()
    const isWatched = !this.#isTimeKnown || this.breaker.isOpen
    if (isWatched || this.silenceMs() <= DEAD_AFTER_MS) return
    // What arrived while this process stood still is read first.
    setImmediate(() => {
      if (!this.#closed && this.silenceMs() > DEAD_AFTER_MS) this.onFailure()
    })
  }

  /** For how long the node has owed an answer and said nothing. */
  silenceMs(): number {
    return this.#silentSinceMs === undefined ? 0 : this.#deps.nowMs() - this.#silentSinceMs
  }

  private requestTimeIfIdle(): void {
    // Told so lately that the next look is in time.
    const isNew = this.#deps.nowMs() - this.clock.learntMs < TIME_EVERY_MS - IDLE_CHECK_MS
    if (this.isAnswering && !this.#isTimeRequested && !isNew) this.requestTime()
  }

  /** Asks the node for its time. */
  private requestTime(): void {
    const { nowMs, timeCommand, deadlineMs } = this.#deps
    const sentMs = nowMs()
    const left = this.channel.send([timeCommand], (_, reply) => {
      this.#isTimeRequested = false
      this.onHeard()
      const storeUs = readTime(reply)
      const receivedMs = nowMs()
      if (storeUs === undefined) return
      this.clock.learn(sentMs, receivedMs, storeUs)
      this.#policy.learnRoundTrip(receivedMs - sentMs, receivedMs)
      this.onTime(receivedMs - sentMs <= Math.max(deadlineMs, this.#longestDeadlineMs))
    })
    if (!left) return
    this.#isTimeRequested = true
    this.#silentSinceMs ??= sentMs
  }

  private onTime(isInTime: boolean): void {
    const wasAnswering = this.#isTimeKnown && !this.breaker.isOpen
    this.#isTimeKnown = true
    if (this.breaker.isOpen) {
      if (!isInTime) return
      this.breaker.close()
      this.#deps.observer.breakerClosed(this.channel.address)
    }
    if (!wasAnswering) this.#deps.onAnswering(this)
  }

  /** The node has said something, or the connection on which it was asked is gone. */
  private onHeard(): void {
    const owesMore = this.#policy.inFlight > 0 || this.#isTimeRequested
    this.#silentSinceMs = owesMore ? this.#deps.nowMs() : undefined
  }
}

/** Of parts whose weight is taken off the queue already. */
function giveUp(ops: readonly PartitionOp[]): void {
  for (const op of ops) {
    op.holder = undefined
    op.settle('not-run')
  }
}

function readTime(reply: RedisReply | Error): number | undefined {
  if (!Array.isArray(reply)) return undefined
  const [seconds, micros] = reply.map((word) => Number(String(word)))
  if (seconds === undefined || micros === undefined) return undefined
  const us = seconds * 1_000_000 + micros
  return Number.isSafeInteger(us) ? us : undefined
}
