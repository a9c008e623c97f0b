/**
 * One write to one Redis node: a script, or on a Cluster one for each partition, and what becomes
 * of every part in it.
 */
import { wholeAddress } from '../connection/run-command.js'
import type { RedisCommand, RedisReply } from '../connection/driver.js'
import { RedisReplyError } from '../connection/driver.js'
import { actionOf, codeOf, redirectionOf, type StoreErrorCode } from './error-actions.js'
import type { NodePipeline, NodePipelineDeps } from './node-pipeline.js'
import { countTakesOf, type PartitionOp, type OpHolder } from '../request/partition-op.js'
import { SentBatch } from './send-policy.js'
import { decodeBatch } from '../protocol/batch-reply.js'
import type { EncodedBatch } from '../protocol/batch-request.js'

/** The parts that one script decides. */
export interface ScriptPlan {
  readonly ops: readonly PartitionOp[]
  /** Whether the node is told that it may answer for a slot it does not have yet. */
  readonly asking: boolean
}

interface ScriptCall extends ScriptPlan {
  readonly batch: EncodedBatch
}

/** What was answered that it may pass in a moment is sent again once. */
const RESENDS_MAX = 1
/** A slot on the move may first be split up, then be asked for elsewhere, then be gone. */
const REDIRECTIONS_MAX = 3
/** After an error that may pass, the same is sent again so much later. */
const RESEND_AFTER_MS = 2

export class InFlightBatch implements OpHolder {
  readonly #pipeline: NodePipeline
  readonly #deps: NodePipelineDeps
  readonly #scripts: ScriptCall[] = []
  /** What its parts cost Redis. */
  readonly cost: number
  #open = 0
  #batch = NOT_SENT
  /** When the last script was answered, and when it began by the store's clock. */
  #receivedMs = NaN
  #storeUs: number | undefined
  #missed = false
  #isBlamed = false

  constructor(pipeline: NodePipeline, deps: NodePipelineDeps, plans: readonly ScriptPlan[]) {
    this.#pipeline = pipeline
    this.#deps = deps
    let cost = 0
    for (const { ops: together, asking } of plans) {
      for (const { weight } of together) cost += weight
      this.#scripts.push({ ops: together, asking, batch: this.encode(together) })
    }
    this.cost = cost
  }

  send(batch: SentBatch): void {
    this.#batch = batch
    const commands: RedisCommand[] = []
    // Beside each command the leg that its reply is for; ASKING is for none.
    const scripts: (ScriptCall | undefined)[] = []
    for (let l = 0; l < this.#scripts.length; l++) {
      const script = this.#scripts[l]
      if (script === undefined) continue
      for (let i = 0; i < script.ops.length; i++) {
        const op = script.ops[i]
        if (op === undefined) continue
        op.stage = 'sent'
        op.holder = this
      }
      if (script.asking) {
        commands.push(ASKING)
        scripts.push(undefined)
      }
      commands.push(script.batch.command)
      scripts.push(script)
    }
    this.#open = this.#scripts.length
    const left = this.#pipeline.channel.send(commands, (index, reply) => {
      const script = scripts[index]
      if (script !== undefined) this.complete(script, reply, false)
    })
    if (!left) this.failUnsent()
  }

  onDropped(): void {}

  /**
   * A part of it was not answered in time, which a batch reports once. The node is blamed, once
   * too, if it has had as long as an answer may take: the part's own deadline may be shorter.
   */
  onMissed(): void {
    const { nowMs, deadlineMs, observer } = this.#deps
    if (!this.#missed) observer.error('deadline', this.#pipeline.channel.address)
    this.#missed = true
    const hadTimeMs = Math.max(nowMs() - this.#batch.sentMs, this.#pipeline.silenceMs())
    if (this.#isBlamed || hadTimeMs < deadlineMs) return
    this.#isBlamed = true
    this.#pipeline.onFailure()
  }

  private encode(ops: readonly PartitionOp[]): EncodedBatch {
    const { codec, scriptTime } = this.#deps
    let deadlineAtMs = Infinity
    for (const { owner } of ops) deadlineAtMs = Math.min(deadlineAtMs, owner.deadlineAtMs)
    const { clock } = this.#pipeline
    const now = scriptTime()
    // A time that a test passes in has nothing to do with our clock, so nothing can be too late.
    const notAfter = now > 0 || !clock.isKnown ? 0 : Math.max(1, clock.earliest(deadlineAtMs))
    return codec.encode(
      ops.map(({ storeOp }) => storeOp),
      { notAfter, now },
    )
  }

  private failUnsent(): void {
    const { observer } = this.#deps
    for (const { ops } of this.#scripts) {
      for (const op of ops) {
        observer.error('connection', this.#pipeline.channel.address)
        op.settle('not-run')
      }
    }
    this.#pipeline.onCompleted(this, this.#batch)
  }

  private complete(script: ScriptCall, reply: RedisReply | Error, loaded: boolean): void {
    this.#deps.onReply()
    if (reply instanceof RedisReplyError) {
      const code = codeOf(reply.message)
      // The script went lost: the same with its source, in the same flight.
      if (actionOf(code) === 'load' && !loaded && this.load(script)) {
        this.#deps.observer.error(code, this.#pipeline.channel.address)
        return
      }
      this.onErrorReply(script.ops, code, reply.message)
    } else if (reply instanceof Error) this.onConnectionLost(script.ops)
    else this.onReply(script, reply)
    this.#open -= 1
    if (this.#open > 0) return
    if (this.#receivedMs > 0)
      this.#pipeline.recordAnswer(this.#batch, this.#receivedMs, this.#storeUs)
    this.#pipeline.onCompleted(this, this.#batch)
  }

  private load(script: ScriptCall): boolean {
    const commands: RedisCommand[] = script.asking ? [ASKING] : []
    commands.push(script.batch.fallback)
    return this.#pipeline.channel.send(commands, (index, reply) => {
      if (index === commands.length - 1) this.complete(script, reply, true)
    })
  }

  private onReply(script: ScriptCall, reply: RedisReply): void {
    const { ops } = script
    const receivedMs = this.#deps.nowMs()
    const { address } = this.#pipeline.channel
    let decoded: ReturnType<typeof decodeBatch>
    try {
      decoded = decodeBatch(
        ops.map(({ storeOp }) => storeOp),
        reply,
      )
    } catch {
      this.#deps.observer.error('garbage', address)
      for (const op of ops) op.settle('unknown')
      this.#pipeline.onFailure()
      this.#pipeline.channel.reconnect()
      return
    }
    const { sentMs } = this.#batch
    this.#receivedMs = receivedMs
    if (this.#deps.scriptTime() === 0) {
      this.#storeUs = decoded.storeTime
      this.#pipeline.clock.learn(sentMs, receivedMs, decoded.storeTime)
    }
    // A node is as good as it answers, however little time a rule leaves it.
    const isPrompt = receivedMs - sentMs <= this.#deps.deadlineMs
    if (decoded.late) {
      if (isPrompt) this.#pipeline.onSuccess()
      this.#deps.observer.error('late', address)
      this.resendLater(ops, 0)
      return
    }
    if (ops.length > 1) this.#deps.onScriptPassed(ops[0]?.partition ?? 0)
    let takes = 0
    let inTime = isPrompt
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i]
      if (op === undefined) continue
      takes += countTakesOf(op.storeOp)
      if (!op.owner.isAnswered) inTime = true
      const answer = decoded.answers[i]
      if (answer === 'spoiled') this.#deps.observer.error('WRONGTYPE', address)
      op.settle(answer === 'spoiled' ? 'not-run' : answer)
    }
    this.#deps.observer.batch(address, (receivedMs - sentMs) / 1000, takes)
    if (inTime) this.#pipeline.onSuccess()
    else this.onMissed()
  }

  private onConnectionLost(ops: readonly PartitionOp[]): void {
    this.#deps.observer.error('connection', this.#pipeline.channel.address)
    for (const op of ops) op.settle('unknown')
  }

  private onErrorReply(ops: readonly PartitionOp[], code: StoreErrorCode, message: string): void {
    const { observer } = this.#deps
    const { address } = this.#pipeline.channel
    observer.error(code, address)
    const action = actionOf(code)
    if (action === 'loud') observer.problem(`Redis ${address} refuses scripts: ${message}`)
    if (action === 'moved' || action === 'ask') this.redirect(ops, message, action)
    else if (action === 'split') this.resendPerCounter(ops)
    else if (action === 'partition') {
      this.resendable(ops, REDIRECTIONS_MAX)
      this.#deps.onCrossSlot(ops, address, message)
    } else if (action === 'again') this.resendLater(ops, RESEND_AFTER_MS)
    else if (action === 'reconnect') {
      this.#deps.refreshTopology()
      this.#pipeline.channel.reconnect()
      this.resendLater(ops, RESEND_AFTER_MS)
    } else {
      // An error nobody knows may have come from the midst of a script.
      const fate = action === 'unknown' ? 'unknown' : 'not-run'
      if (action === 'unknown') observer.problem(`Redis ${address} answered: ${message}`)
      for (const op of ops) op.settle(fate)
    }
  }

  private redirect(ops: readonly PartitionOp[], message: string, kind: 'moved' | 'ask'): void {
    const { address = '' } = redirectionOf(message) ?? {}
    const target = wholeAddress(address, this.#pipeline.channel.address)
    if (kind === 'moved') this.#deps.refreshTopology()
    this.#deps.redirect(this.resendable(ops, REDIRECTIONS_MAX), target, kind)
  }

  private resendPerCounter(ops: readonly PartitionOp[]): void {
    this.#deps.resendPerCounter(this.resendable(ops, REDIRECTIONS_MAX))
  }

  /** Nothing of it was done, so it may be sent again, within the deadline. */
  private resendLater(ops: readonly PartitionOp[], afterMs: number): void {
    const { nowMs } = this.#deps
    const resendable = this.resendable(ops, RESENDS_MAX, afterMs)
    if (resendable.length === 0) return
    const resend = () => {
      for (const op of resendable) {
        if (op.stage === 'settled') continue
        if (op.owner.deadlineAtMs > nowMs()) this.#deps.route(op)
        else op.settle('not-run')
      }
    }
    if (afterMs === 0) resend()
    else setTimeout(resend, afterMs)
  }

  /** Those that have time left; the others were not run. */
  private resendable(
    ops: readonly PartitionOp[],
    most: number,
    afterMs = 0,
  ): readonly PartitionOp[] {
    const nowMs = this.#deps.nowMs()
    return ops.filter((op) => {
      op.resends += 1
      const hasTime = op.owner.deadlineAtMs > nowMs + afterMs
      if (op.resends <= most && hasTime && !op.owner.isAnswered) {
        op.stage = 'new'
        op.holder = undefined
        return true
      }
      op.settle('not-run')
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
