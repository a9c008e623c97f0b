/**
 * The way to one Redis node: parts gather into batches, batches leave on one connection.
 *
 * With nothing in flight a part leaves at once (with what else the same turn of the event loop
 * brings); otherwise it joins the next batch, which leaves when it is large enough to be worth a
 * script of its own, when one returns, or when it has waited long enough for company.
 */
import { Breaker } from './breaker.js'
import type { RedisChannel, RedisReply } from './driver.js'
import { Flight, type FlightPlan } from './flight.js'
import type { LaneParts } from './lane-parts.js'
import type { Part, PartHolder } from './part.js'
import { StoreClock } from './store-clock.js'

/** Takes in a batch: about 0.7 ms of Redis, during which nobody else is served. */
const BATCH_TAKES_MAX = 128
/** Batches on the wire: while Redis decides one, the next is there already. */
const IN_FLIGHT_MAX = 4
/** By how many batches are on the wire: so many takes are worth sending another. */
const WORTH_SENDING = [1, 64, BATCH_TAKES_MAX, BATCH_TAKES_MAX] as const
/** Takes that may wait; what is beyond that is answered by posture at once. */
const QUEUED_TAKES_MAX = 65_536
/** Takes that wait so long leave although they are few: the node is not slow, but far away. */
const PATIENCE_MS = 2
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
  #queue: Part[] = []
  #queuedTakes = 0
  #inFlight = 0
  #leftMs = 0
  #roundTripMs = 0
  #scheduled = false
  readonly #flush = () => {
    this.#scheduled = false
    while (this.mayLeave()) this.send(this.#parts.plan(this.nextParts()))
    this.leaveLater()
  }
  #patience: ReturnType<typeof setTimeout> | undefined
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
    this.#timeTimer = setInterval(() => this.askIfIdle(), IDLE_LOOK_MS)
    this.#timeTimer.unref()
    if (channel.isReady) this.greet()
  }

  /** Whether a part that is added now would be asked about. */
  get isAnswering(): boolean {
    return this.#greeted && !this.breaker.isOpen && this.channel.isReady
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get queuedTakes(): number {
    return this.#queuedTakes
  }

  /** The connection is ready, for the first time or again: another server may be behind it. */
  greet(): void {
    this.#greeted = false
    this.#silentSinceMs = undefined
    this.clock.forget()
    this.ask()
    this.scheduleProbe()
  }

  /** Takes a part into the next batch; one that cannot be asked about is not run. */
  add(part: Part): void {
    const isFull = this.#queuedTakes + part.weight > QUEUED_TAKES_MAX
    if (isFull) this.#parts.observer.error('overload', this.channel.address)
    if (!this.isAnswering || isFull) {
      if (this.breaker.isOpen) this.turnedAway(part)
      part.settle('not-run')
      return
    }
    part.stage = 'queued'
    part.holder = this
    this.#queue.push(part)
    this.#queuedTakes += part.weight
    this.schedule()
  }

  dropped(part: Part): void {
    this.#queuedTakes -= part.weight
  }

  /** What waits here was not sent in time, because nothing returns. */
  missed(): void {
    this.failed()
  }

  /** Sends parts by themselves, at once: to a node that does not have their slot yet. */
  sendAsking(parts: readonly Part[]): void {
    this.send(parts.map((part) => ({ parts: [part], asking: true })))
  }

  /** Something left and was not answered in time. */
  failed(): void {
    if (this.#parts.isBusy() || !this.breaker.fail()) return
    this.#patientMs = 0
    this.#parts.observer.breakerOpened(this.channel.address)
    this.drain()
    this.scheduleProbe()
  }

  /** Something was answered in time. */
  succeeded(): void {
    if (!this.breaker.isOpen) this.breaker.succeed()
  }

  /** A batch that left at `sentMs` is settled, and makes room for the next. */
  landed(sentMs: number): void {
    this.#inFlight -= 1
    this.#roundTripMs = this.#parts.nowMs() - sentMs
    this.heard()
    this.schedule()
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#timeTimer)
    clearTimeout(this.#probeTimer)
    clearTimeout(this.#patience)
    this.drain()
  }

  /** A rule may wait longer than most: a probe that is in time for it is in time. */
  private turnedAway({ op, owner }: Part): void {
    if (op.verb !== 'take' && op.verb !== 'peek') return
    this.#patientMs = Math.max(this.#patientMs, owner.deadlineAtMs - this.#parts.nowMs())
  }

  private drain(): void {
    const queue = this.#queue
    this.#queue = []
    this.#queuedTakes = 0
    giveUp(queue)
  }

  private schedule(): void {
    if (this.#scheduled) return
    if (!this.mayLeave()) {
      this.leaveLater()
      return
    }
    this.#scheduled = true
    // With nothing on the wire at once; else at the end of this turn of the event loop, so that all
    // that one reply brings forth leaves together.
    if (this.#inFlight === 0) queueMicrotask(this.#flush)
    else setImmediate(this.#flush)
  }

  private mayLeave(): boolean {
    const worth = WORTH_SENDING[this.#inFlight]
    if (worth === undefined || this.#queuedTakes === 0) return false
    return this.#queuedTakes >= worth || this.patienceMs() <= 0
  }

  /**
   * How long what waits goes on waiting for company. Where batches are long under way they leave
   * evenly spread over that time: a take that waited for one to return would be twice as long.
   */
  private patienceMs(): number {
    const underWayMs = Math.min(this.#roundTripMs, this.#parts.deadlineMs)
    const apartMs = Math.max(PATIENCE_MS, underWayMs / IN_FLIGHT_MAX)
    return this.#leftMs + apartMs - this.#parts.nowMs()
  }

  private leaveLater(): void {
    const isFull = this.#inFlight >= IN_FLIGHT_MAX
    if (this.#patience !== undefined || isFull || this.#queuedTakes === 0) return
    this.#patience = setTimeout(
      () => {
        this.#patience = undefined
        this.schedule()
      },
      Math.max(1, Math.ceil(this.patienceMs())),
    )
  }

  /** The parts of the next batch; always at least one, however large it is. */
  private nextParts(): readonly Part[] {
    const parts: Part[] = []
    let takes = 0
    let seen = 0
    for (const part of this.#queue) {
      if (part.stage === 'queued') {
        if (takes > 0 && takes + part.weight > BATCH_TAKES_MAX) break
        takes += part.weight
        parts.push(part)
      }
      seen += 1
    }
    this.#queue.splice(0, seen)
    this.#queuedTakes -= takes
    return parts
  }

  private send(plans: readonly FlightPlan[]): void {
    if (plans.length === 0) return
    const flight = this.flightOf(plans)
    if (flight === undefined) return
    this.#inFlight += 1
    this.#leftMs = this.#parts.nowMs()
    this.#silentSinceMs ??= this.#leftMs
    flight.leave()
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
    const nowMs = this.#parts.nowMs()
    const isDead = nowMs - (this.#silentSinceMs ?? nowMs) > DEAD_AFTER_MS
    if (isDead) this.channel.reconnect()
    else if (!this.#isAsked) this.ask()
    this.scheduleProbe()
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
    const owesMore = this.#inFlight > 0 || this.#isAsked
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
