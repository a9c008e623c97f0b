/**
 * One write to one Redis node: a script, or on a Cluster one for each partition, and what becomes
 * of every part in it.
 */
import { wholeAddress } from './ask.js'
import type { RedisCommand, RedisReply } from './driver.js'
import { RedisReplyError } from './driver.js'
import { actionOf, codeOf, redirectionOf, type StoreErrorCode } from './error-actions.js'
import type { Lane } from './lane.js'
import type { LaneParts } from './lane-parts.js'
import { countTakesOf, type Part, type PartHolder } from './part.js'
import { SentBatch } from './send-policy.js'
import { decodeBatch } from './wire/reply.js'
import type { EncodedBatch } from './wire/request.js'

/** The parts that one script decides. */
export interface FlightPlan {
  readonly parts: readonly Part[]
  /** Whether the node is told that it may answer for a slot it does not have yet. */
  readonly asking: boolean
}

interface Leg extends FlightPlan {
  readonly batch: EncodedBatch
}

/** What was answered that it may pass in a moment is sent again once. */
const AGAIN_MAX = 1
/** A slot on the move may first be split up, then be asked for elsewhere, then be gone. */
const REDIRECTIONS_MAX = 3
/** After an error that may pass, the same is sent again so much later. */
const AGAIN_AFTER_MS = 2

export class Flight implements PartHolder {
  readonly #lane: Lane
  readonly #parts: LaneParts
  readonly #legs: Leg[] = []
  /** What its parts cost Redis. */
  readonly cost: number
  #open = 0
  #batch = NOT_SENT
  /** When the last script was answered, and when it began by the store's clock. */
  #receivedMs = NaN
  #storeUs: number | undefined
  #missed = false
  #isBlamed = false

  constructor(lane: Lane, parts: LaneParts, plans: readonly FlightPlan[]) {
    this.#lane = lane
    this.#parts = parts
    let cost = 0
    for (const { parts: together, asking } of plans) {
      for (const { weight } of together) cost += weight
      this.#legs.push({ parts: together, asking, batch: this.encode(together) })
    }
    this.cost = cost
  }

  leave(batch: SentBatch): void {
    this.#batch = batch
    const commands: RedisCommand[] = []
    // Beside each command the leg that its reply is for; ASKING is for none.
    const legs: (Leg | undefined)[] = []
    for (let l = 0; l < this.#legs.length; l++) {
      const leg = this.#legs[l]
      if (leg === undefined) continue
      for (let i = 0; i < leg.parts.length; i++) {
        const part = leg.parts[i]
        if (part === undefined) continue
        part.stage = 'sent'
        part.holder = this
      }
      if (leg.asking) {
        commands.push(ASKING)
        legs.push(undefined)
      }
      commands.push(leg.batch.command)
      legs.push(leg)
    }
    this.#open = this.#legs.length
    const left = this.#lane.channel.send(commands, (index, reply) => {
      const leg = legs[index]
      if (leg !== undefined) this.land(leg, reply, false)
    })
    if (!left) this.unsent()
  }

  dropped(): void {}

  /**
   * A part of it was not answered in time, which a batch reports once. The node is blamed, once
   * too, if it has had as long as an answer may take: the part's own deadline may be shorter.
   */
  missed(): void {
    const { nowMs, deadlineMs, observer } = this.#parts
    if (!this.#missed) observer.error('deadline', this.#lane.channel.address)
    this.#missed = true
    const hadTimeMs = Math.max(nowMs() - this.#batch.sentMs, this.#lane.silenceMs())
    if (this.#isBlamed || hadTimeMs < deadlineMs) return
    this.#isBlamed = true
    this.#lane.failed()
  }

  private encode(parts: readonly Part[]): EncodedBatch {
    const { codec, scriptTime } = this.#parts
    let deadlineAtMs = Infinity
    for (const { owner } of parts) deadlineAtMs = Math.min(deadlineAtMs, owner.deadlineAtMs)
    const { clock } = this.#lane
    const now = scriptTime()
    // A time that a test passes in has nothing to do with our clock, so nothing can be too late.
    const notAfter = now > 0 || !clock.isKnown ? 0 : Math.max(1, clock.earliest(deadlineAtMs))
    return codec.encode(
      parts.map(({ op }) => op),
      { notAfter, now },
    )
  }

  private unsent(): void {
    const { observer } = this.#parts
    for (const { parts } of this.#legs) {
      for (const part of parts) {
        observer.error('connection', this.#lane.channel.address)
        part.settle('not-run')
      }
    }
    this.#lane.landed(this, this.#batch)
  }

  private land(leg: Leg, reply: RedisReply | Error, loaded: boolean): void {
    this.#parts.replied()
    if (reply instanceof RedisReplyError) {
      const code = codeOf(reply.message)
      // The script went lost: the same with its source, in the same flight.
      if (actionOf(code) === 'load' && !loaded && this.load(leg)) {
        this.#parts.observer.error(code, this.#lane.channel.address)
        return
      }
      this.refused(leg.parts, code, reply.message)
    } else if (reply instanceof Error) this.lost(leg.parts)
    else this.answered(leg, reply)
    this.#open -= 1
    if (this.#open > 0) return
    if (this.#receivedMs > 0) this.#lane.answered(this.#batch, this.#receivedMs, this.#storeUs)
    this.#lane.landed(this, this.#batch)
  }

  private load(leg: Leg): boolean {
    const commands: RedisCommand[] = leg.asking ? [ASKING] : []
    commands.push(leg.batch.fallback)
    return this.#lane.channel.send(commands, (index, reply) => {
      if (index === commands.length - 1) this.land(leg, reply, true)
    })
  }

  private answered(leg: Leg, reply: RedisReply): void {
    const { parts } = leg
    const receivedMs = this.#parts.nowMs()
    const { address } = this.#lane.channel
    let decoded: ReturnType<typeof decodeBatch>
    try {
      decoded = decodeBatch(
        parts.map(({ op }) => op),
        reply,
      )
    } catch {
      this.#parts.observer.error('garbage', address)
      for (const part of parts) part.settle('unknown')
      this.#lane.failed()
      this.#lane.channel.reconnect()
      return
    }
    const { sentMs } = this.#batch
    this.#receivedMs = receivedMs
    if (this.#parts.scriptTime() === 0) {
      this.#storeUs = decoded.storeTime
      this.#lane.clock.learn(sentMs, receivedMs, decoded.storeTime)
    }
    // A node is as good as it answers, however little time a rule leaves it.
    const isPrompt = receivedMs - sentMs <= this.#parts.deadlineMs
    if (decoded.late) {
      if (isPrompt) this.#lane.succeeded()
      this.#parts.observer.error('late', address)
      this.again(parts, 0)
      return
    }
    if (parts.length > 1) this.#parts.passed(parts[0]?.partition ?? 0)
    let takes = 0
    let inTime = isPrompt
    for (let i = 0; i < parts.length; i++) {
      const part = parts[i]
      if (part === undefined) continue
      takes += countTakesOf(part.op)
      if (!part.owner.isAnswered) inTime = true
      const answer = decoded.answers[i]
      if (answer === 'spoiled') this.#parts.observer.error('WRONGTYPE', address)
      part.settle(answer === 'spoiled' ? 'not-run' : answer)
    }
    this.#parts.observer.batch(address, (receivedMs - sentMs) / 1000, takes)
    if (inTime) this.#lane.succeeded()
    else this.missed()
  }

  private lost(parts: readonly Part[]): void {
    this.#parts.observer.error('connection', this.#lane.channel.address)
    for (const part of parts) part.settle('unknown')
  }

  private refused(parts: readonly Part[], code: StoreErrorCode, message: string): void {
    const { observer } = this.#parts
    const { address } = this.#lane.channel
    observer.error(code, address)
    const action = actionOf(code)
    if (action === 'loud') observer.problem(`Redis ${address} refuses scripts: ${message}`)
    if (action === 'moved' || action === 'ask') this.redirected(parts, message, action)
    else if (action === 'split') this.splitUp(parts)
    else if (action === 'partition') {
      this.resendable(parts, REDIRECTIONS_MAX)
      this.#parts.crossSlot(parts, address, message)
    } else if (action === 'again') this.again(parts, AGAIN_AFTER_MS)
    else if (action === 'reconnect') {
      this.#parts.refresh()
      this.#lane.channel.reconnect()
      this.again(parts, AGAIN_AFTER_MS)
    } else {
      // An error nobody knows may have come from the midst of a script.
      const fate = action === 'unknown' ? 'unknown' : 'not-run'
      if (action === 'unknown') observer.problem(`Redis ${address} answered: ${message}`)
      for (const part of parts) part.settle(fate)
    }
  }

  private redirected(parts: readonly Part[], message: string, kind: 'moved' | 'ask'): void {
    const { address = '' } = redirectionOf(message) ?? {}
    const target = wholeAddress(address, this.#lane.channel.address)
    if (kind === 'moved') this.#parts.refresh()
    this.#parts.redirect(this.resendable(parts, REDIRECTIONS_MAX), target, kind)
  }

  private splitUp(parts: readonly Part[]): void {
    this.#parts.splitUp(this.resendable(parts, REDIRECTIONS_MAX))
  }

  /** Nothing of it was done, so it may be sent again, within the deadline. */
  private again(parts: readonly Part[], afterMs: number): void {
    const { nowMs } = this.#parts
    const resendable = this.resendable(parts, AGAIN_MAX, afterMs)
    if (resendable.length === 0) return
    const resend = () => {
      for (const part of resendable) {
        if (part.stage === 'settled') continue
        if (part.owner.deadlineAtMs > nowMs()) this.#parts.route(part)
        else part.settle('not-run')
      }
    }
    if (afterMs === 0) resend()
    else setTimeout(resend, afterMs)
  }

  /** Those that have time left; the others were not run. */
  private resendable(parts: readonly Part[], most: number, afterMs = 0): readonly Part[] {
    const nowMs = this.#parts.nowMs()
    return parts.filter((part) => {
      part.resends += 1
      const hasTime = part.owner.deadlineAtMs > nowMs + afterMs
      if (part.resends <= most && hasTime && !part.owner.isAnswered) {
        part.stage = 'new'
        part.holder = undefined
        return true
      }
      part.settle('not-run')
      return false
    })
  }
}

const NOT_SENT = new SentBatch(0, 0, 0, 0)
const ASKING_BYTES = Buffer.from('*1\r\n$6\r\nASKING\r\n')

const ASKING: RedisCommand = {
  bytes: () => ASKING_BYTES,
  words: () => ['ASKING'],
}
