/**
 * A Redis Cluster: one connection to each primary, and a map from slots to primaries. The topology
 * is polled every few seconds while all is well, several times a second while a primary is missing,
 * and at once after a redirection.
 */
import { wordsCommand } from './run-command.js'
import {
  type RedisChannel,
  type RedisDriver,
  RedisReplyError,
  type Subscription,
  type SubscriptionEvents,
} from './driver.js'
import { SLOT_COUNT } from '../request/partitions.js'
import { formatAddress, parseAddress, type RedisAddress } from './redis-target.js'
import { NodeConnection, type ConnectionDeps } from './node-connection.js'
import type { HandshakeOptions } from './handshake.js'
import { DriverListeners, unfitTarget } from './driver-listeners.js'
import { FollowingSubscription } from './subscription.js'
import { TopologyPoll } from './topology-poll.js'
import { readSlotRanges, type SlotRange } from './slot-ranges.js'
import { waitForSockets } from './standalone-driver.js'

const CLUSTER_SLOTS = wordsCommand(['CLUSTER', 'SLOTS'])

/** Redis recommends at most 1,000 nodes for a Cluster. */
const CONNECTIONS_MAX = 1024
/** After this time without an answer the next node is queried too. */
const NEXT_AFTER_MS = 150
/** A node without slots is dropped after this many consecutive answers that do not name it. */
const ABSENCES_MAX = 3
/** The same for a node that still owes replies. */
const SILENT_ABSENCES_MAX = 12

interface ClusterNode {
  readonly connection: NodeConnection
  /** Consecutive answers that did not name it as a primary, since it was last used. */
  absences: number
  /** Whether it owes an answer about the slots; it is not queried again until then. */
  isPolled: boolean
}

export class ClusterDriver implements RedisDriver {
  readonly topology = 'cluster'
  readonly #seeds: readonly RedisAddress[]
  readonly #handshake: HandshakeOptions
  readonly #deps: ConnectionDeps
  readonly #listeners = new DriverListeners()
  readonly #nodes = new Map<string, ClusterNode>()
  #reportedRefusal = ''
  readonly #topologyPoll: TopologyPoll
  #bySlot: readonly (NodeConnection | undefined)[] = []
  #primaries: ReadonlySet<NodeConnection> = new Set()
  #isWhole = false
  #isClosed = false
  #nextTimer: ReturnType<typeof setTimeout> | undefined

  constructor(seeds: readonly RedisAddress[], handshake: HandshakeOptions, deps: ConnectionDeps) {
    this.#seeds = seeds
    this.#handshake = handshake
    this.#deps = deps
    this.#topologyPoll = new TopologyPoll(deps.random, {
      poll: (done) => this.pollTopology(done),
      isHealthy: () => this.isHealthy(),
    })
    this.openSeeds()
  }

  channelOf(slot: number): RedisChannel | undefined {
    return this.#bySlot[slot]
  }

  channelAt(address: string): RedisChannel | undefined {
    const endpoint = parseAddress(address)
    const node = endpoint === undefined ? undefined : this.nodeAt(endpoint)
    if (node === undefined) return undefined
    node.absences = 0
    return node.connection
  }

  channels(): readonly RedisChannel[] {
    return [...this.#primaries]
  }

  refresh(): void {
    this.#topologyPoll.pollSoon()
  }

  subscribe(slot: number, channel: string, events: SubscriptionEvents): Subscription {
    return new FollowingSubscription(channel, events, {
      endpoint: () => this.#bySlot[slot]?.endpoint,
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
    clearTimeout(this.#nextTimer)
    for (const { connection } of this.#nodes.values()) connection.close()
    await waitForSockets()
  }

  private isHealthy(): boolean {
    return this.#isWhole && [...this.#primaries].every(({ isReady }) => isReady)
  }

  private openSeeds(): void {
    for (const seed of this.#seeds) this.nodeAt(seed)
  }

  private nodeAt(endpoint: RedisAddress): ClusterNode | undefined {
    const address = formatAddress(endpoint)
    const known = this.#nodes.get(address)
    if (known !== undefined || this.#isClosed || this.#nodes.size >= CONNECTIONS_MAX) return known
    const connection = new NodeConnection(endpoint, this.#handshake, this.#deps, {
      ready: (ready) => {
        if (this.#primaries.has(ready)) this.#listeners.ready(ready)
        // It may be the first node that can be queried.
        if (!this.#isWhole) this.#topologyPoll.pollSoon()
      },
      lost: () => this.#topologyPoll.pollSoon(),
      problem: (problem) => this.#listeners.problem(problem),
    })
    const node = { connection, absences: 0, isPolled: false }
    this.#nodes.set(address, node)
    return node
  }

  /**
   * Queries one node after the other until one answers; all of them at once would be too much load.
   */
  private pollTopology(done: () => void): void {
    const nodes = this.pollable()
    if (nodes.length === 0) this.openSeeds()
    let isDone = false
    const finish = () => {
      isDone = true
      clearTimeout(this.#nextTimer)
      done()
    }
    const tryNext = () => {
      clearTimeout(this.#nextTimer)
      const node = nodes.pop()
      if (isDone) return
      if (node === undefined) {
        finish()
        return
      }
      this.#nextTimer = setTimeout(tryNext, NEXT_AFTER_MS)
      this.requestSlots(node, (ranges) => {
        if (isDone || this.#isClosed) return
        // A node that was just reset knows no other node.
        if (ranges === undefined || ranges.length === 0) tryNext()
        else {
          this.learn(ranges)
          finish()
        }
      })
    }
    tryNext()
  }

  /**
   * In random order, because one of them may be cut off from the others and know an old topology.
   */
  private pollable(): ClusterNode[] {
    return [...this.#nodes.values()]
      .filter(({ connection, isPolled }) => connection.isReady && !isPolled)
      .map((node) => ({ node, rank: this.#deps.random() }))
      .toSorted((a, b) => a.rank - b.rank)
      .map(({ node }) => node)
  }

  private requestSlots(
    node: ClusterNode,
    then: (ranges: readonly SlotRange[] | undefined) => void,
  ): void {
    const { connection } = node
    node.isPolled = connection.send([CLUSTER_SLOTS], (_, reply) => {
      node.isPolled = false
      if (reply instanceof RedisReplyError) this.reportRefusal(connection.address, reply)
      then(readSlotRanges(reply, connection.host))
    })
    if (!node.isPolled) then(undefined)
  }

  /** Reported once: a server that is not part of a Cluster sends the same error each time. */
  private reportRefusal(address: string, cause: RedisReplyError): void {
    const { message } = cause
    if (this.#reportedRefusal === message) return
    this.#reportedRefusal = message
    const isOther = /cluster support disabled/i.test(message)
    if (isOther && this.#seeds.length === 1) {
      const problem = 'found no node of a Cluster behind redis+cluster://'
      const accepted = `redis://${address}`
      this.#listeners.problem(unfitTarget(address, problem, accepted))
    } else
      this.#listeners.problem(
        new Error(`Redis ${address} refuses CLUSTER SLOTS: ${message}`, { cause }),
      )
  }

  private learn(ranges: readonly SlotRange[]): void {
    const bySlot = Array.from({ length: SLOT_COUNT }, (): NodeConnection | undefined => undefined)
    const primaries = new Set<NodeConnection>()
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
    this.closeAbsent()
    for (const connection of primaries) {
      if (!before.has(connection) && connection.isReady) this.#listeners.ready(connection)
    }
  }

  /**
   * Closes connections to replicas and to nodes that left. A node that gave its slots away still
   * owes replies, and a node that will receive slots is queried before it has them, so both stay a
   * while.
   */
  private closeAbsent(): void {
    for (const [address, node] of this.#nodes) {
      node.absences = this.#primaries.has(node.connection) ? 0 : node.absences + 1
      const most = node.connection.hasOutstanding ? SILENT_ABSENCES_MAX : ABSENCES_MAX
      if (node.absences <= most) continue
      node.connection.close()
      this.#nodes.delete(address)
    }
  }
}
