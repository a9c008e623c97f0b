/**
 * One write to one Redis node: one script, or on a Cluster one per partition. Settles, resends or
 * redirects each of its operations when the replies arrive.
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

/** The operations of one script. */
export interface ScriptPlan {
  readonly ops: readonly PartitionOp[]
  /**
   * Whether to send ASKING first, so that the node answers for a slot that it does not have yet.
   */
  readonly asking: boolean
}

interface ScriptCall extends ScriptPlan {
  readonly batch: EncodedBatch
}

/** How many times an operation is sent again after an error that may be transient. */
const RESENDS_MAX = 1
/** How many times in all: a migrating slot may first be split, then redirected, then be gone. */
const REDIRECTIONS_MAX = 3
/** The pause before an operation is sent again after an error that may be transient. */
const RESEND_AFTER_MS = 2
/** A guest may run only the scripts that the nodes of that region have loaded. */
const UNLOADABLE =
  '. It lacks a script of this version of Sluice, which only a node of its own region loads'

export class InFlightBatch implements OpHolder {
  readonly #pipeline: NodePipeline
  readonly #deps: NodePipelineDeps
  readonly #scripts: ScriptCall[] = []
  /** What the operations cost Redis. */
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
    // For each command, the script that its reply belongs to; none for ASKING.
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
   * An operation of this batch was not answered in time, which is reported once per batch. The node
   * is blamed, also once, if it has had as long as a reply may take: the deadline of the operation
   * may have been shorter.
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
    // A time that a test sets is unrelated to our clock, so nothing can be too late.
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
      // The script is not loaded: send it again with its source, as part of this batch.
      if (actionOf(code) === 'load' && !loaded && this.load(script)) {
        this.#deps.observer.error(code, this.#pipeline.channel.address)
        this.#pipeline.onScriptsLost()
        return
      }
      const isUnloadable = loaded && code === 'NOPERM'
      const message = isUnloadable ? `${reply.message}${UNLOADABLE}` : reply.message
      this.onErrorReply(script.ops, code, message)
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
    // A node is judged by how fast it answers, however short the deadline of a rule is.
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
      // An unknown error may come from the middle of a script.
      const fate = action === 'unknown' ? 'unknown' : 'not-run'
      if (action === 'unknown')
        observer.problem(`Redis ${address} replied with an unknown error: ${message}`)
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

  /** Sends operations again, within their deadlines. They did not run. */
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

  /** Returns the operations that have time left, and settles the others as `not-run`. */
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
