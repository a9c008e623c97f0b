/**
 * A primary that sentinels watch over. All sentinels are polled for its address: one that was cut
 * off still names the old primary, so the one that knows of the latest failover is believed. The
 * channel stays the same through a failover; only its address changes.
 */
import { wordsCommand } from './run-command.js'
import {
  type RedisChannel,
  type RedisCommand,
  type RedisDriver,
  type RedisReply,
  RedisReplyError,
  type Subscription,
  type SubscriptionEvents,
} from './driver.js'
import { parseAddress, type RedisAddress, type RedisTarget } from './redis-target.js'
import { NodeConnection, type ConnectionDeps } from './node-connection.js'
import type { HandshakeOptions } from './handshake.js'
import { DriverListeners, unfitTarget } from './driver-listeners.js'
import { FollowingSubscription } from './subscription.js'
import { TopologyPoll } from './topology-poll.js'
import { waitForSockets } from './standalone-driver.js'

/** A poll costs a sentinel next to nothing, and may be what ends an outage. */
const HEALTHY_MS = 1000
/** How long a poll waits for the answer of a sentinel. */
const ANSWER_MS = 250
/** A sentinel that is silent for this many rounds is reconnected, because it may be dead. */
const SILENCES_MAX = 4

/** The answer of one sentinel. */
interface PrimaryReport {
  readonly primary: RedisAddress
  /** The number of the failover that made it the primary. */
  readonly epoch: number
}

interface Sentinel {
  readonly connection: NodeConnection
  /** Consecutive rounds in which it still owed an answer. */
  silences: number
}

export class SentinelDriver implements RedisDriver {
  readonly topology = 'sentinel'
  readonly #name: string
  readonly #handshake: HandshakeOptions
  readonly #deps: ConnectionDeps
  readonly #listeners = new DriverListeners()
  readonly #commands: readonly RedisCommand[]
  readonly #sentinels: readonly Sentinel[]
  readonly #topologyPoll: TopologyPoll
  #primary: NodeConnection | undefined
  #epoch = -1
  #isUnknownReported = false
  #reportedRefusal = ''
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  /** `sentinelHandshake` is for the sentinels, `handshake` for the primary. */
  constructor(
    target: Pick<RedisTarget, 'name' | 'addresses'>,
    sentinelHandshake: HandshakeOptions,
    handshake: HandshakeOptions,
    deps: ConnectionDeps,
  ) {
    this.#name = target.name
    this.#handshake = { ...handshake, mustBePrimary: true }
    this.#deps = deps
    this.#commands = [
      // The address first, because during a failover it is updated before the other.
      wordsCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', target.name]),
      wordsCommand(['SENTINEL', 'MASTER', target.name]),
    ]
    this.#topologyPoll = new TopologyPoll(
      deps.random,
      {
        poll: (done) => this.pollSentinels(done),
        isHealthy: () => this.#primary?.isReady === true,
      },
      HEALTHY_MS,
    )
    const events = {
      ready: () => {
        if (this.#primary?.isReady !== true) this.#topologyPoll.pollSoon()
      },
      lost: () => {},
      problem: (problem: Error) => this.#listeners.problem(problem),
    }
    this.#sentinels = target.addresses.map((endpoint) => ({
      connection: new NodeConnection(endpoint, sentinelHandshake, deps, events),
      silences: 0,
    }))
  }

  channelOf(): RedisChannel | undefined {
    return this.#primary
  }

  channelAt(address: string): RedisChannel | undefined {
    return address === this.#primary?.address ? this.#primary : undefined
  }

  channels(): readonly RedisChannel[] {
    return this.#primary === undefined ? [] : [this.#primary]
  }

  refresh(): void {
    this.#topologyPoll.pollSoon()
  }

  subscribe(_slot: number, channel: string, events: SubscriptionEvents): Subscription {
    return new FollowingSubscription(channel, events, {
      endpoint: () => this.#primary?.endpoint,
      handshake: this.#handshake,
      connectionDeps: this.#deps,
    })
  }

  onReady(listener: (channel: RedisChannel) => void): void {
    this.#listeners.onReady(listener)
  }

  onProblem(listener: (problem: Error) => void): void {
    this.#listeners.onProblem(listener)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#topologyPoll.close()
    clearTimeout(this.#timer)
    for (const { connection } of this.#sentinels) connection.close()
    this.#primary?.close()
    await waitForSockets()
  }

  /** Queries all sentinels, and uses the answer with the latest failover. */
  private pollSentinels(done: () => void): void {
    const reports: PrimaryReport[] = []
    let open = 0
    let isDone = false
    const finish = () => {
      if (isDone || this.#isClosed) return
      isDone = true
      clearTimeout(this.#timer)
      this.adopt(reports)
      done()
    }
    for (const { connection } of this.pollable()) {
      const replies: (RedisReply | Error)[] = []
      const wasSent = connection.send(this.#commands, (_, reply) => {
        replies.push(reply)
        if (replies.length < this.#commands.length) return
        const report = readPrimaryReport(replies)
        if (report !== undefined) reports.push(report)
        else if (replies[0] === null) this.reportUnknown(connection)
        else if (replies[0] instanceof RedisReplyError) {
          this.reportRefusal(connection.address, replies[0])
        }
        open -= 1
        if (open === 0) finish()
      })
      if (wasSent) open += 1
    }
    if (open === 0) done()
    else this.#timer = setTimeout(finish, ANSWER_MS)
  }

  /** A sentinel that owes an answer is not queried again, but reconnected after a while. */
  private pollable(): readonly Sentinel[] {
    return this.#sentinels.filter((sentinel) => {
      const { connection } = sentinel
      sentinel.silences = connection.hasOutstanding ? sentinel.silences + 1 : 0
      if (sentinel.silences > SILENCES_MAX) connection.reconnect()
      return sentinel.silences === 0
    })
  }

  private adopt(reports: readonly PrimaryReport[]): void {
    const [best] = reports.toSorted((a, b) => b.epoch - a.epoch)
    // An older failover than the known one is believed only if there is no primary to lose.
    if (best === undefined || (best.epoch < this.#epoch && this.#primary?.isReady)) return
    this.#epoch = best.epoch
    if (this.#primary !== undefined) {
      this.#primary.redirect(best.primary)
      return
    }
    this.#primary = new NodeConnection(best.primary, this.#handshake, this.#deps, {
      ready: (connection) => this.#listeners.ready(connection),
      lost: () => this.#topologyPoll.pollSoon(),
      problem: (problem) => this.#listeners.problem(problem),
    })
  }

  private reportRefusal(address: string, cause: RedisReplyError): void {
    const { message } = cause
    if (this.#reportedRefusal === message) return
    this.#reportedRefusal = message
    const isOther = /^ERR unknown command/i.test(message)
    if (isOther && this.#sentinels.length === 1) {
      const problem = 'found no Sentinel behind redis+sentinel://'
      this.#listeners.problem(unfitTarget(address, problem, `redis://${address}`))
    } else {
      const problem = `Sentinel ${address} replied with an error: ${message}`
      this.#listeners.problem(new Error(problem, { cause }))
    }
  }

  private reportUnknown({ address }: NodeConnection): void {
    if (this.#isUnknownReported) return
    this.#isUnknownReported = true
    const problem = `Sentinel ${address} knows no primary named ${this.#name}`
    this.#listeners.problem(new Error(problem))
  }
}

function readPrimaryReport([address, fields]: readonly (RedisReply | Error)[]):
  | PrimaryReport
  | undefined {
  if (!Array.isArray(address)) return undefined
  const primary = parseAddress(`${String(address[0])}:${String(address[1])}`)
  if (primary === undefined) return undefined
  const texts = Array.isArray(fields) ? fields.map(String) : []
  // Fields and values alternate. A sentinel that refuses the second command counts as oldest.
  const at = texts.findIndex((text, index) => index % 2 === 0 && text === 'config-epoch')
  const epoch = at === -1 ? 0 : Number(texts[at + 1])
  return { primary, epoch: Number.isSafeInteger(epoch) ? epoch : 0 }
}
