/**
 * A Redis Cluster: one connection to each primary, and which of them serves which slot. What the
 * nodes say of that is asked for again and again: every few seconds while all is well, several
 * times a second while a primary is missing, and at once when a redirection said that it changed.
 */
import { wordsCommand } from '../ask.js'
import {
  type RedisChannel,
  type RedisDriver,
  RedisReplyError,
  type Subscription,
  type SubscriptionEvents,
} from '../driver.js'
import { SLOT_COUNT } from '../partitions.js'
import { formatAddress, parseAddress, type RedisAddress } from '../url.js'
import { Connection, type ConnectionParts } from './connection.js'
import type { Greeting } from './greeting.js'
import { Listeners, unfitTarget } from './listeners.js'
import { FollowingSubscription } from './subscription.js'
import { TopologyRounds } from './topology-rounds.js'
import { readSlotRanges, type SlotRange } from './slot-ranges.js'
import { socketsGone } from './standalone.js'

const CLUSTER_SLOTS = wordsCommand(['CLUSTER', 'SLOTS'])

/** Redis recommends at most 1,000 nodes for a Cluster. */
const CONNECTIONS_MAX = 1024
/** A node that does not answer for so long is not waited for alone: the next is asked too. */
const ASK_NEXT_AFTER_MS = 150
/** A node that serves no slot is left after so many answers in a row that do not name it, */
const ABSENCES_MAX = 3
/** and after so many although it has not answered everything. */
const SILENT_ABSENCES_MAX = 12

interface Node {
  readonly connection: Connection
  /** How many answers in a row did not name it as a primary, since it was last used. */
  absences: number
  /** Whether it was asked for the slots and has not answered; it is not asked twice. */
  isAsked: boolean
}

export class ClusterDriver implements RedisDriver {
  readonly topology = 'cluster'
  readonly #seeds: readonly RedisAddress[]
  readonly #greeting: Greeting
  readonly #parts: ConnectionParts
  readonly #listeners = new Listeners()
  readonly #nodes = new Map<string, Node>()
  #refusalTold = ''
  readonly #rounds: TopologyRounds
  #bySlot: readonly (Connection | undefined)[] = []
  #primaries: ReadonlySet<Connection> = new Set()
  #isWhole = false
  #isClosed = false
  #askNextTimer: ReturnType<typeof setTimeout> | undefined

  constructor(seeds: readonly RedisAddress[], greeting: Greeting, parts: ConnectionParts) {
    this.#seeds = seeds
    this.#greeting = greeting
    this.#parts = parts
    this.#rounds = new TopologyRounds(parts.random, {
      ask: (done) => this.ask(done),
      isWell: () => this.isWell(),
    })
    this.openSeeds()
  }

  channelOf(slot: number): RedisChannel | undefined {
    return this.#bySlot[slot]
  }

  channelAt(address: string): RedisChannel | undefined {
    const where = parseAddress(address)
    const node = where === undefined ? undefined : this.nodeAt(where)
    if (node === undefined) return undefined
    node.absences = 0
    return node.connection
  }

  channels(): readonly RedisChannel[] {
    return [...this.#primaries]
  }

  refresh(): void {
    this.#rounds.hurry()
  }

  subscribe(slot: number, channel: string, events: SubscriptionEvents): Subscription {
    return new FollowingSubscription(channel, events, {
      where: () => this.#bySlot[slot]?.where,
      greeting: this.#greeting,
      parts: this.#parts,
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
    this.#rounds.close()
    clearTimeout(this.#askNextTimer)
    for (const { connection } of this.#nodes.values()) connection.close()
    await socketsGone()
  }

  private isWell(): boolean {
    return this.#isWhole && [...this.#primaries].every(({ isReady }) => isReady)
  }

  private openSeeds(): void {
    for (const seed of this.#seeds) this.nodeAt(seed)
  }

  private nodeAt(where: RedisAddress): Node | undefined {
    const address = formatAddress(where)
    const known = this.#nodes.get(address)
    if (known !== undefined || this.#isClosed || this.#nodes.size >= CONNECTIONS_MAX) return known
    const connection = new Connection(where, this.#greeting, this.#parts, {
      ready: (ready) => {
        if (this.#primaries.has(ready)) this.#listeners.ready(ready)
        // It may be the first that can be asked.
        if (!this.#isWhole) this.#rounds.hurry()
      },
      lost: () => this.#rounds.hurry(),
      problem: (problem) => this.#listeners.problem(problem),
    })
    const node = { connection, absences: 0, isAsked: false }
    this.#nodes.set(address, node)
    return node
  }

  /** Asks one node after the other until one answers; all of them at once would be a storm. */
  private ask(done: () => void): void {
    const nodes = this.askable()
    if (nodes.length === 0) this.openSeeds()
    let isDone = false
    const finish = () => {
      isDone = true
      clearTimeout(this.#askNextTimer)
      done()
    }
    const askNext = () => {
      clearTimeout(this.#askNextTimer)
      const node = nodes.pop()
      if (isDone) return
      if (node === undefined) {
        finish()
        return
      }
      this.#askNextTimer = setTimeout(askNext, ASK_NEXT_AFTER_MS)
      this.askNode(node, (ranges) => {
        if (isDone || this.#isClosed) return
        // A node that was just reset knows of nobody.
        if (ranges === undefined || ranges.length === 0) askNext()
        else {
          this.learn(ranges)
          finish()
        }
      })
    }
    askNext()
  }

  /** In an order of chance: one of them may be cut off from the others and know old things only. */
  private askable(): Node[] {
    return [...this.#nodes.values()]
      .filter(({ connection, isAsked }) => connection.isReady && !isAsked)
      .map((node) => ({ node, rank: this.#parts.random() }))
      .toSorted((a, b) => a.rank - b.rank)
      .map(({ node }) => node)
  }

  private askNode(node: Node, then: (ranges: readonly SlotRange[] | undefined) => void): void {
    const { connection } = node
    node.isAsked = connection.send([CLUSTER_SLOTS], (_, reply) => {
      node.isAsked = false
      if (reply instanceof RedisReplyError) this.tellRefused(connection.address, reply)
      then(readSlotRanges(reply, connection.host))
    })
    if (!node.isAsked) then(undefined)
  }

  /** Told once: a node that is none of a Cluster says the same each time. */
  private tellRefused(address: string, cause: RedisReplyError): void {
    const { message } = cause
    if (this.#refusalTold === message) return
    this.#refusalTold = message
    const isOther = /cluster support disabled/i.test(message)
    if (isOther && this.#seeds.length === 1) {
      const problem = 'found no node of a Cluster behind redis+cluster://'
      const accepted = `redis://${address}`
      this.#listeners.problem(unfitTarget(address, problem, accepted))
    } else
      this.#listeners.problem(
        new Error(`Redis ${address} does not tell its slots: ${message}`, { cause }),
      )
  }

  private learn(ranges: readonly SlotRange[]): void {
    const bySlot = Array.from({ length: SLOT_COUNT }, (): Connection | undefined => undefined)
    const primaries = new Set<Connection>()
    for (const { first, last, primary } of ranges) {
      const connection = this.nodeAt(primary)?.connection
      if (connection === undefined) continue
      primaries.add(connection)
      bySlot.fill(connection, first, last + 1)
    }
    const before = this.#primaries
    this.#bySlot = bySlot
    this.#primaries = primaries
    this.#isWhole = !bySlot.includes(undefined)
    this.leaveOthers()
    for (const connection of primaries) {
      if (!before.has(connection) && connection.isReady) this.#listeners.ready(connection)
    }
  }

  /**
   * Replicas and nodes that left are not needed; one that gave its slots away still has replies to
   * give, and one that is to get slots is asked before it has them.
   */
  private leaveOthers(): void {
    for (const [address, node] of this.#nodes) {
      node.absences = this.#primaries.has(node.connection) ? 0 : node.absences + 1
      const most = node.connection.hasOutstanding ? SILENT_ABSENCES_MAX : ABSENCES_MAX
      if (node.absences <= most) continue
      node.connection.close()
      this.#nodes.delete(address)
    }
  }
}
