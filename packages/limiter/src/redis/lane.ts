/**
 * The way to one Redis node: parts gather into batches, batches leave on one connection. When they
 * leave is decided by send-policy.ts.
 */
import { Breaker } from './breaker.js'
import type { RedisChannel, RedisReply } from './driver.js'
import { Flight, type FlightPlan } from './flight.js'
import type { LaneParts } from './lane-parts.js'
import type { Part, PartHolder } from './part.js'
import { PartQueue } from './part-queue.js'
import { BATCH_COST_MAX, SendPolicy, type SentBatch } from './send-policy.js'
import { StoreClock } from './store-clock.js'

/** A connection that says nothing for so long, though asked, is dead without knowing. */
const DEAD_AFTER_MS = 2000
/** A node that nobody asks anything is asked for its time so often: clocks drift. */
const TIME_EVERY_MS = 1000
/** How often that is looked at. */
const IDLE_LOOK_MS = TIME_EVERY_MS / 4
/** A node that did not tell its time is asked again so much later. */
const GREET_AGAIN_MS = 250

export class Lane implements PartHolder {
  readonly channel: RedisChannel
  readonly clock: StoreClock
  readonly breaker: Breaker
  readonly #parts: LaneParts
  readonly #queue = new PartQueue(BATCH_COST_MAX)
  readonly #policy = new SendPolicy()
  /** The batch of the heavy part under way: one at a time, so that it holds up little else. */
  #heavyFlight: Flight | undefined
  #scheduled = false
  readonly #flush = () => {
    this.#scheduled = false
    while (this.mayLeave()) this.sendBatch()
    this.sendHeavy()
    this.leaveLater()
  }
  #lookAgain: ReturnType<typeof setTimeout> | undefined
  /** Whether the node has told its time since it was connected. */
  #greeted = false
  #isAsked = false
  /** Since when the node owes answers and has given none. */
  #silentSinceMs: number | undefined
  #probeTimer: ReturnType<typeof setTimeout> | undefined
  readonly #timeTimer: ReturnType<typeof setInterval>
  /** The most that a call which came while the breaker was open would have waited. */
  #patientMs = 0
  #closed = false

  constructor(channel: RedisChannel, parts: LaneParts) {
    this.channel = channel
    this.#parts = parts
    this.clock = new StoreClock(parts.nowMs)
    this.breaker = new Breaker(parts.nowMs, parts.random)
    this.#timeTimer = setInterval(() => this.lookAfter(), IDLE_LOOK_MS)
    this.#timeTimer.unref()
    if (channel.isReady) this.greet()
  }

  /** Whether a part that is added now would be asked about. */
  get isAnswering(): boolean {
    return this.#greeted && !this.breaker.isOpen && this.channel.isReady
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
  greet(): void {
    this.#greeted = false
    this.#silentSinceMs = undefined
    this.clock.forget()
    this.#policy.reset()
    this.ask()
    if (this.#parts.preload.length > 0) this.channel.send(this.#parts.preload, () => {})
    this.scheduleProbe()
  }

  /** Takes a part into the next batch; one that cannot be asked about is not run. */
  add(part: Part): void {
    const reason = this.reasonNotToSend(part)
    if (reason !== undefined) {
      this.#parts.observer.error(reason, this.channel.address)
      if (this.breaker.isOpen) this.turnedAway(part)
      part.settle('not-run')
      return
    }
    part.stage = 'queued'
    part.holder = this
    this.#queue.push(part)
    if (this.#policy.leavesAtOnce(this.#queue.lightCost, this.#parts.nowMs())) this.sendBatch()
    else this.schedule()
  }

  dropped(part: Part): void {
    this.#queue.settled(part)
  }

  /**
   * A part that waits here was not sent in time. The node is blamed for that only if it owes an
   * answer to something that was sent, for as long as an answer may take.
   */
  missed(): void {
    if (this.silenceMs() >= this.#parts.deadlineMs) this.failed()
  }

  /** Sends parts by themselves, at once: to a node that does not have their slot yet. */
  sendAsking(parts: readonly Part[]): void {
    this.send(parts.map((part) => ({ parts: [part], asking: true })))
  }

  /**
   * Something left and was not answered in time. A busy process may have read the answer late, so
   * the node is not blamed then; but no process is too busy to read anything for two seconds.
   */
  failed(): void {
    const isDead = this.silenceMs() > DEAD_AFTER_MS
    if (this.#parts.isBusy() && !isDead) return
    const opened = isDead ? this.breaker.trip() : this.breaker.fail()
    if (!opened) return
    if (isDead) this.channel.reconnect()
    this.#patientMs = 0
    this.#parts.observer.breakerOpened(this.channel.address)
    this.drain()
    this.scheduleProbe()
  }

  /** Something was answered in time. */
  succeeded(): void {
    if (!this.breaker.isOpen) this.breaker.succeed()
  }

  /** A batch was answered; `storeUs` is when it ran, undefined where a test passes time in. */
  answered(batch: SentBatch, receivedMs: number, storeUs: number | undefined): void {
    this.#policy.answered(batch, receivedMs, storeUs)
  }

  /** A batch is settled, and makes room for the next. */
  landed(flight: Flight, batch: SentBatch): void {
    this.#policy.landed(batch)
    if (flight === this.#heavyFlight) this.#heavyFlight = undefined
    this.heard()
    this.schedule()
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#timeTimer)
    clearTimeout(this.#probeTimer)
    clearTimeout(this.#lookAgain)
    this.drain()
  }

  private reasonNotToSend(part: Part): 'breaker' | 'connection' | 'overload' | undefined {
    if (this.breaker.isOpen) return 'breaker'
    if (!this.isAnswering) return 'connection'
    return this.#queue.hasRoomFor(part) ? undefined : 'overload'
  }

  /** A rule may wait longer than most: a probe that is in time for it is in time. */
  private turnedAway({ op, owner }: Part): void {
    if (op.verb !== 'take' && op.verb !== 'peek') return
    this.#patientMs = Math.max(this.#patientMs, owner.deadlineAtMs - this.#parts.nowMs())
  }

  private drain(): void {
    giveUp(this.#queue.clear())
  }

  private schedule(): void {
    if (this.#scheduled) return
    if (!this.mayLeave() && !this.mayLeaveHeavy()) {
      this.leaveLater()
      return
    }
    this.#scheduled = true
    // With nothing on the wire at once; else at the end of this turn of the event loop, so that all
    // that one reply brings forth leaves together.
    if (this.#policy.inFlight === 0) queueMicrotask(this.#flush)
    else setImmediate(this.#flush)
  }

  private mayLeave(): boolean {
    return this.#policy.mayLeave(this.#queue.lightCost, this.#parts.nowMs())
  }

  private sendBatch(): void {
    this.send(this.#parts.plan(this.#queue.nextBatch()))
  }

  private mayLeaveHeavy(): boolean {
    return this.#queue.hasHeavy && this.#heavyFlight === undefined
  }

  /** Sends the first heavy part, in a script of its own. */
  private sendHeavy(): void {
    if (!this.mayLeaveHeavy()) return
    const part = this.#queue.nextHeavy()
    if (part !== undefined) this.send(this.#parts.plan([part]), true)
  }

  private leaveLater(): void {
    if (this.#lookAgain !== undefined || this.#queue.lightCost === 0) return
    const inMs = this.#policy.lookAgainMs(this.#parts.nowMs())
    if (inMs === undefined) return
    this.#lookAgain = setTimeout(
      () => {
        this.#lookAgain = undefined
        this.schedule()
      },
      Math.max(1, Math.ceil(inMs)),
    )
  }

  private send(plans: readonly FlightPlan[], isHeavy = false): void {
    if (plans.length === 0) return
    const flight = this.flightOf(plans)
    if (flight === undefined) return
    if (isHeavy) this.#heavyFlight = flight
    const nowMs = this.#parts.nowMs()
    this.#silentSinceMs ??= nowMs
    flight.leave(this.#policy.sent(flight.cost, plans.length, nowMs))
  }

  /** What cannot be encoded was somebody's mistake, and must not be the end of the process. */
  private flightOf(plans: readonly FlightPlan[]): Flight | undefined {
    try {
      return new Flight(this, this.#parts, plans)
    } catch (error) {
      this.#parts.observer.problem(`A batch cannot be sent: ${String(error)}`)
      for (const { parts } of plans) giveUp(parts)
      return undefined
    }
  }

  private scheduleProbe(): void {
    if (this.#closed) return
    clearTimeout(this.#probeTimer)
    const inMs = this.breaker.isOpen ? this.breaker.probeInMs() : GREET_AGAIN_MS
    this.#probeTimer = setTimeout(() => this.probe(), inMs)
    this.#probeTimer.unref()
  }

  /** Goes on until the node has told its time, and in time. */
  private probe(): void {
    if (this.#greeted && !this.breaker.isOpen) return
    this.breaker.probing()
    if (this.silenceMs() > DEAD_AFTER_MS) this.channel.reconnect()
    else if (!this.#isAsked) this.ask()
    this.scheduleProbe()
  }

  private lookAfter(): void {
    this.askIfIdle()
    const isWatched = !this.#greeted || this.breaker.isOpen
    if (isWatched || this.silenceMs() <= DEAD_AFTER_MS) return
    // What arrived while this process stood still is read first.
    setImmediate(() => {
      if (!this.#closed && this.silenceMs() > DEAD_AFTER_MS) this.failed()
    })
  }

  /** For how long the node has owed an answer and said nothing. */
  silenceMs(): number {
    return this.#silentSinceMs === undefined ? 0 : this.#parts.nowMs() - this.#silentSinceMs
  }

  private askIfIdle(): void {
    // Told so lately that the next look is in time.
    const isNew = this.#parts.nowMs() - this.clock.learntMs < TIME_EVERY_MS - IDLE_LOOK_MS
    if (this.isAnswering && !this.#isAsked && !isNew) this.ask()
  }

  /** Asks the node for its time. */
  private ask(): void {
    const { nowMs, timeCommand, deadlineMs } = this.#parts
    const sentMs = nowMs()
    const left = this.channel.send([timeCommand], (_, reply) => {
      this.#isAsked = false
      this.heard()
      const storeUs = readTime(reply)
      const receivedMs = nowMs()
      if (storeUs === undefined) return
      this.clock.learn(sentMs, receivedMs, storeUs)
      this.#policy.learnWay(receivedMs - sentMs, receivedMs)
      this.told(receivedMs - sentMs <= Math.max(deadlineMs, this.#patientMs))
    })
    if (!left) return
    this.#isAsked = true
    this.#silentSinceMs ??= sentMs
  }

  private told(isInTime: boolean): void {
    const wasAnswering = this.#greeted && !this.breaker.isOpen
    this.#greeted = true
    if (this.breaker.isOpen) {
      if (!isInTime) return
      this.breaker.close()
      this.#parts.observer.breakerClosed(this.channel.address)
    }
    if (!wasAnswering) this.#parts.answering(this)
  }

  /** The node has said something, or the connection on which it was asked is gone. */
  private heard(): void {
    const owesMore = this.#policy.inFlight > 0 || this.#isAsked
    this.#silentSinceMs = owesMore ? this.#parts.nowMs() : undefined
  }
}

/** Of parts whose weight is taken off the queue already. */
function giveUp(parts: readonly Part[]): void {
  for (const part of parts) {
    part.holder = undefined
    part.settle('not-run')
  }
}

function readTime(reply: RedisReply | Error): number | undefined {
  if (!Array.isArray(reply)) return undefined
  const [seconds, micros] = reply.map((word) => Number(String(word)))
  if (seconds === undefined || micros === undefined) return undefined
  const us = seconds * 1_000_000 + micros
  return Number.isSafeInteger(us) ? us : undefined
}
