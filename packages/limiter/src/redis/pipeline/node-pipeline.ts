/**
 * The pipeline to one Redis node: gathers operations into batches and sends them on one connection.
 * `send-policy.ts` decides when a batch is sent.
 */
import { Breaker } from './breaker.js'
import type { RedisChannel, RedisCommand, RedisReply } from '../connection/driver.js'
import { InFlightBatch, type ScriptPlan } from './in-flight-batch.js'
import type { StoreObserver } from './redis-observer.js'
import type { BatchEncoder } from '../protocol/batch-request.js'
import type { PartitionOp, OpHolder } from '../request/partition-op.js'
import { OpQueue } from './op-queue.js'
import { BATCH_COST_MAX, SendPolicy, type SentBatch } from './send-policy.js'
import { StoreClock } from '../server/store-clock.js'

/** A connection that has been silent this long although it owes a reply is considered dead. */
const DEAD_AFTER_MS = 2000
/** How often an idle node receives TIME, because clocks drift. */
const TIME_EVERY_MS = 1000
/** How often the pipeline checks whether that is due. */
const IDLE_CHECK_MS = TIME_EVERY_MS / 4
/** The pause before TIME is sent again to a node whose time is not known. */
const TIME_RETRY_MS = 250
/** The pause between two loads: all batches on their way may miss a script at once. */
const LOAD_AGAIN_MS = 1000

export interface NodePipelineDeps {
  readonly nowMs: () => number
  readonly random: () => number
  readonly codec: BatchEncoder
  readonly timeCommand: RedisCommand
  /**
   * Sent on every new connection, and when Redis has lost a script; the replies are ignored. See
   * `protocol/preload.ts`.
   */
  readonly preload: readonly RedisCommand[]
  readonly deadlineMs: number
  /** The time that the script decides with; 0 for the store's own. */
  readonly scriptTime: () => number
  readonly observer: StoreObserver
  /** Groups operations into scripts: all in one, or on a Cluster one per partition. */
  plan(ops: readonly PartitionOp[]): readonly ScriptPlan[]
  /** Adds an operation to the pipeline of its node. */
  route(op: PartitionOp): void
  /** Sends operations to the node that has their slot, or to which their slot is migrating. */
  redirect(ops: readonly PartitionOp[], address: string, kind: 'moved' | 'ask'): void
  /** Sends operations counter by counter, because their slot is migrating. */
  resendPerCounter(ops: readonly PartitionOp[]): void
  /**
   * The server refused a script with counters of several partitions. Some of `ops` may be settled.
   */
  onCrossSlot(ops: readonly PartitionOp[], address: string, message: string): void
  /** A script of this partition with more than one counter was answered. */
  onScriptPassed(partition: number): void
  /** Called when a reply shows that the topology has changed. */
  refreshTopology(): void
  /** The node answers, for the first time or again. */
  onAnswering(pipeline: NodePipeline): void
  /** Whether this process is too busy to blame a node for late replies. */
  isBusy(): boolean
  /** Called for each reply that was read. */
  onReply(): void
}

export class NodePipeline implements OpHolder {
  readonly channel: RedisChannel
  readonly clock: StoreClock
  readonly breaker: Breaker
  readonly #deps: NodePipelineDeps
  readonly #queue = new OpQueue(BATCH_COST_MAX)
  readonly #policy = new SendPolicy()
  /** The heavy operation in flight. There is one at a time, so that it delays little else. */
  #heavyBatch: InFlightBatch | undefined
  #scheduled = false
  readonly #flush = () => {
    this.#scheduled = false
    while (this.maySend()) this.sendBatch()
    this.sendHeavy()
    this.flushLater()
  }
  #flushTimer: ReturnType<typeof setTimeout> | undefined
  /** Whether the node has sent its time since it was connected. */
  #isTimeKnown = false
  #isTimeRequested = false
  #reloadedMs = -Infinity
  /** Since when the node owes replies and has sent none. */
  #silentSinceMs: number | undefined
  #probeTimer: ReturnType<typeof setTimeout> | undefined
  readonly #timeTimer: ReturnType<typeof setInterval>
  /** The longest deadline of the calls that arrived while the breaker was open. */
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

  /** Whether an operation that is added now would be sent. */
  get isAnswering(): boolean {
    return this.#isTimeKnown && !this.breaker.isOpen && this.channel.isReady
  }

  get inFlight(): number {
    return this.#policy.inFlight
  }

  /** The cost of the operations that wait to be sent. */
  get queuedCost(): number {
    return this.#queue.cost
  }

  /** The number of operations in the queue, settled ones included. */
  get queueSize(): number {
    return this.#queue.size
  }

  /** The connection is ready, for the first time or again. Another server may be behind it. */
  onConnected(): void {
    this.#isTimeKnown = false
    this.#silentSinceMs = undefined
    this.clock.forget()
    this.#policy.reset()
    this.requestTime()
    this.loadScripts()
    this.scheduleProbe()
  }

  /**
   * Redis has lost a script, as after SCRIPT FLUSH: loads all again. Calls may need only some of
   * them, but guests from other regions need the others and cannot load them.
   */
  onScriptsLost(): void {
    const nowMs = this.#deps.nowMs()
    if (nowMs - this.#reloadedMs < LOAD_AGAIN_MS) return
    this.#reloadedMs = nowMs
    this.loadScripts()
  }

  private loadScripts(): void {
    if (this.#deps.preload.length > 0) this.channel.send(this.#deps.preload, () => {})
  }

  /** Adds an operation to the next batch; one that cannot be sent is settled as `not-run`. */
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
   * A waiting operation was not sent by its deadline. The node is blamed only if it has owed a
   * reply for as long as a reply may take.
   */
  onMissed(): void {
    if (this.silenceMs() >= this.#deps.deadlineMs) this.onFailure()
  }

  /** Sends operations at once, in their own batch, to a node that does not have their slot yet. */
  sendAsking(ops: readonly PartitionOp[]): void {
    this.send(ops.map((op) => ({ ops: [op], asking: true })))
  }

  /**
   * Something was sent and not answered in time. A busy process may have read the reply late, so it
   * does not blame the node; but no process is too busy to read anything for two seconds.
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

  /** Records an answer; `storeUs` is when the batch ran, or undefined if a test sets the time. */
  recordAnswer(batch: SentBatch, receivedMs: number, storeUs: number | undefined): void {
    this.#policy.onAnswered(batch, receivedMs, storeUs)
  }

  /** Called when a batch is settled, which makes room for the next. */
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

  /** Remembers the longest deadline: a probe answered within it counts as in time. */
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
    // Flushes at once if nothing is in flight; otherwise at the end of this turn of the event loop,
    // so that all operations that follow from one reply are sent together.
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

  /** Sends the first heavy operation, in its own script. */
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

  /**
   * Encodes a batch. A batch that cannot be encoded is a bug in the caller and must not end the
   * process.
   */
  private batchOf(plans: readonly ScriptPlan[]): InFlightBatch | undefined {
    try {
      return new InFlightBatch(this, this.#deps, plans)
    } catch (error) {
      this.#deps.observer.problem(`A batch could not be encoded: ${String(error)}`)
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

  /** Probes until the node has sent its time by the deadline. */
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
    // Replies that arrived while this process was blocked are read first.
    setImmediate(() => {
      if (!this.#closed && this.silenceMs() > DEAD_AFTER_MS) this.onFailure()
    })
  }

  /** For how long the node has owed a reply and sent nothing. */
  silenceMs(): number {
    return this.#silentSinceMs === undefined ? 0 : this.#deps.nowMs() - this.#silentSinceMs
  }

  private requestTimeIfIdle(): void {
    // The time was learnt so recently that the next check is early enough.
    const isNew = this.#deps.nowMs() - this.clock.learntMs < TIME_EVERY_MS - IDLE_CHECK_MS
    if (this.isAnswering && !this.#isTimeRequested && !isNew) this.requestTime()
  }

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

  /** The node has replied, or the connection that the request was sent on is gone. */
  private onHeard(): void {
    const owesMore = this.#policy.inFlight > 0 || this.#isTimeRequested
    this.#silentSinceMs = owesMore ? this.#deps.nowMs() : undefined
  }
}

/** Settles operations that are no longer counted in the queue. */
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
