/**
 * A lasting connection to one node: opens a socket, does the handshake, and opens the next socket
 * when that one ends.
 */
import {
  type RedisChannel,
  type RedisCommand,
  RedisConnectionError,
  RedisNodeProblem,
} from './driver.js'
import { formatAddress, type RedisAddress } from './redis-target.js'
import { type HandshakeOptions, type HandshakeStep, handshakeSteps } from './handshake.js'
import type { RedisSocket, OpenSocket, Settle } from './socket.js'
import { reconnectPauseMs } from './reconnect-pause.js'
import { PendingReplies, type PendingRepliesEvents } from './pending-replies.js'

export interface NodeConnectionEvents {
  ready(connection: NodeConnection): void
  /** The connection was ready and no longer is. */
  lost(connection: NodeConnection): void
  problem(problem: Error): void
}

export interface ConnectionDeps {
  readonly openSocket: OpenSocket
  readonly connectTimeoutMs: number
  readonly random: () => number
}

/** The most writes with outstanding replies; senders have smaller bounds of their own. */
const PENDING_MAX = 1024
/** The pause before a node that cannot be used yet is tried again. */
const HANDSHAKE_RETRY_MS = 100
/** How many different problems are reported until the node is ready again, each once. */
const PROBLEMS_MAX = 8

export class NodeConnection implements RedisChannel {
  readonly #deps: ConnectionDeps
  readonly #events: NodeConnectionEvents
  readonly #replyEvents: PendingRepliesEvents
  readonly #steps: readonly HandshakeStep[]
  /**
   * In no order: each knows its index, and the last one replaces one that is done. A Set would keep
   * outgrown tables, and with them young objects, until a major garbage collection.
   */
  readonly #pendingReplies: PendingReplies[] = []
  readonly #problems = new Set<string>()
  #endpoint: RedisAddress
  #address: string
  #socket: RedisSocket | undefined
  #isFit = false
  #isClosed = false
  /** Counts events while connecting, including the end of the connection. */
  #lifeSigns = 0
  /** One timer at a time: for the pause, the connect timeout, or the next handshake. */
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    endpoint: RedisAddress,
    handshake: HandshakeOptions,
    deps: ConnectionDeps,
    events: NodeConnectionEvents,
  ) {
    this.#endpoint = endpoint
    this.#address = formatAddress(endpoint)
    this.#deps = deps
    this.#events = events
    this.#steps = handshakeSteps(handshake)
    this.#replyEvents = {
      onDone: (sent) => this.forget(sent),
      onListenerError: (error) =>
        events.problem(new Error('A reply listener threw', { cause: error })),
    }
    // Deferred, so that the owner can add its listeners first.
    this.setTimer(0, () => this.open())
  }

  get address(): string {
    return this.#address
  }

  get endpoint(): RedisAddress {
    return this.#endpoint
  }

  get host(): string {
    return this.#endpoint.host
  }

  get isReady(): boolean {
    return this.#isFit && this.#socket !== undefined && this.#socket.isWritable
  }

  get hasOutstanding(): boolean {
    return this.#pendingReplies.length > 0
  }

  send(commands: readonly RedisCommand[], settle: Settle): boolean {
    const socket = this.#socket
    if (socket === undefined || !this.isReady || this.#pendingReplies.length >= PENDING_MAX)
      return false
    this.write(socket, commands, settle)
    return true
  }

  /** Subscribes on this connection until it ends; after `ready` it has to be called again. */
  subscribe(channel: string, onMessage: (message: Buffer) => void): Promise<void> {
    const socket = this.#socket
    if (socket !== undefined && this.isReady) return socket.subscribe(channel, onMessage)
    return Promise.reject(new RedisConnectionError(`Redis at ${this.#address} is not connected`))
  }

  reconnect(): void {
    // A socket that is just being opened is new enough.
    if (this.#isFit) this.drop(new Error('A new connection was requested'), false)
  }

  /** Connects to another node instead, because the old one is no longer the primary. */
  redirect(endpoint: RedisAddress): void {
    const address = formatAddress(endpoint)
    if (this.#isClosed || address === this.#address) return
    this.drop(new Error(`${address} is the primary now`), false)
    this.#endpoint = endpoint
    this.#address = address
    this.#problems.clear()
    this.open()
  }

  close(): void {
    this.#isClosed = true
    this.drop(new Error('It was closed'), false)
  }

  private open(): void {
    this.restartTimeout()
    const socket = this.#deps.openSocket(this.#endpoint, {
      opened: () => {
        if (this.#socket === socket) this.handshake(socket)
      },
      ended: (reason) => {
        if (this.#socket === socket) this.drop(reason, false)
      },
    })
    this.#socket = socket
  }

  /** Restarted by every sign of life, so a slow node is waited for and a dead one is not. */
  private restartTimeout(): void {
    const { connectTimeoutMs } = this.#deps
    this.#lifeSigns += 1
    const signs = this.#lifeSigns
    this.setTimer(connectTimeoutMs, () => {
      // If this process was too busy to read, replies that arrived meanwhile are read first.
      setImmediate(() => {
        if (signs !== this.#lifeSigns) return
        this.drop(new Error(`No answer within ${connectTimeoutMs} ms`), true)
      })
    })
  }

  private handshake(socket: RedisSocket): void {
    this.restartTimeout()
    const steps = this.#steps
    const commands = steps.map(({ command }) => command)
    let isFit = true
    this.write(socket, commands, (index, reply) => {
      const step = steps[index]
      if (this.#socket !== socket || step === undefined) return
      this.restartTimeout()
      const verdict = step.judge(reply, (problem) => this.reportProblem(problem))
      if (verdict instanceof Error) this.drop(verdict, false)
      else if (verdict === 'not-yet') isFit = false
      if (this.#socket !== socket || index < steps.length - 1) return
      if (isFit) this.onFit()
      else this.setTimer(HANDSHAKE_RETRY_MS, () => this.handshake(socket))
    })
  }

  private onFit(): void {
    this.clearTimer()
    this.#lifeSigns += 1
    this.#isFit = true
    this.#problems.clear()
    this.#events.ready(this)
  }

  private write(socket: RedisSocket, commands: readonly RedisCommand[], settle: Settle): void {
    if (commands.length === 0) return
    const sent = new PendingReplies(commands.length, settle, this.#replyEvents)
    sent.place = this.#pendingReplies.length
    this.#pendingReplies.push(sent)
    try {
      socket.send(commands, (index, reply) => sent.settle(index, reply))
    } catch (error) {
      // Half of a command may have been written, so nothing that follows on this socket makes
      // sense.
      this.drop(error instanceof Error ? error : new Error(String(error)), false)
    }
  }

  /** Ends the current socket, if there is one, and opens the next after a pause. */
  private drop(reason: Error, timedOut: boolean): void {
    const wasFit = this.#isFit
    const socket = this.#socket
    this.#isFit = false
    this.#socket = undefined
    this.#lifeSigns += 1
    this.clearTimer()
    this.abandon(`The connection to ${this.#address} ended: ${reason.message}`)
    socket?.destroy()
    if (this.#isClosed) return
    this.reportProblem(reason)
    const pause = reconnectPauseMs(timedOut, this.#deps.random)
    this.setTimer(pause, () => this.open())
    if (wasFit) this.#events.lost(this)
  }

  /** Deferred, so that a caller of `reconnect` is not called back from within that call. */
  private abandon(why: string): void {
    if (this.#pendingReplies.length === 0) return
    const outstanding = this.#pendingReplies.splice(0)
    for (const sent of outstanding) sent.place = -1
    queueMicrotask(() => {
      for (const sent of outstanding) sent.abort(why)
    })
  }

  private forget(sent: PendingReplies): void {
    const { place } = sent
    if (place < 0) return
    const last = this.#pendingReplies.pop()
    if (last === undefined || last === sent) return
    this.#pendingReplies[place] = last
    last.place = place
  }

  private reportProblem(problem: Error): void {
    const { message } = problem
    if (this.#problems.has(message) || this.#problems.size >= PROBLEMS_MAX) return
    this.#problems.add(message)
    this.#events.problem(new RedisNodeProblem(this.#address, problem))
  }

  private setTimer(ms: number, then: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(then, ms)
  }

  private clearTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
