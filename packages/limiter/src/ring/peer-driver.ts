/**
 * The connections to the members of a ring, as a driver of the Redis store: a peer is a server that
 * holds some partitions. Partitions of this process are decided here, through a channel without a
 * socket.
 */
import type {
  RedisChannel,
  RedisDriver,
  RedisReply,
  Subscription,
} from '../redis/connection/driver.js'
import { DriverListeners } from '../redis/connection/driver-listeners.js'
import { NodeConnection } from '../redis/connection/node-connection.js'
import { SLOT_COUNT } from '../redis/request/partitions.js'
import { PARTITIONS } from '@sluice/core'
import type { Scheduler } from '../periodic.js'
import type { Member, PeerAddress } from './members.js'
import { OwnerTable } from './owner-table.js'
import type { OpenPeer } from './peer-socket.js'

const SLOTS_PER_PARTITION = SLOT_COUNT / PARTITIONS
/** A new connection that gets no answer for this long is tried again. */
const CONNECT_TIMEOUT_MS = 1000
/** Authentication is the socket's: file permissions or certificates. */
const HANDSHAKE = { username: undefined, password: undefined, db: 0, mustBePrimary: false }
/** A member answers what was sent to it within this time, or never. */
const RETIRE_MS = 2000
const NO_MEMBER = -1

export interface PeerDriverDeps {
  /** The name of this member. */
  readonly self: string
  /** Runs a command on the counters of this process. */
  readonly run: (words: readonly (string | Buffer)[]) => RedisReply | Error
  readonly openPeer: OpenPeer
  readonly random: () => number
  readonly scheduler: Scheduler
  /** Whether a peer would answer now. */
  readonly isAnswering: (channel: RedisChannel) => boolean
  /** A call goes to the deputy, because the owner is silent. */
  readonly onDeputy: () => void
}

interface Peer {
  readonly address: string
  readonly connection: NodeConnection
}

export class PeerDriver implements RedisDriver {
  readonly topology = 'ring'
  readonly #deps: PeerDriverDeps
  readonly #listeners = new DriverListeners()
  readonly #own: RedisChannel
  readonly #peers = new Map<string, Peer>()
  readonly #retired = new Set<NodeConnection>()
  #table = new OwnerTable([])
  /** The channel of each member of the table. */
  #channels: readonly RedisChannel[] = []
  #self = NO_MEMBER

  constructor(deps: PeerDriverDeps) {
    this.#deps = deps
    this.#own = new OwnChannel(deps.self, deps.run)
  }

  get table(): OwnerTable {
    return this.#table
  }

  /** Follows the list of members: connects to new ones, and disconnects from those that left. */
  update(members: readonly Member[]): void {
    const { self } = this.#deps
    this.#table = new OwnerTable(members.map(({ name }) => name))
    for (const [name, peer] of this.#peers) {
      const member = members.find((each) => each.name === name)
      if (member !== undefined && textOf(member.address) === peer.address) continue
      this.retire(peer.connection)
      this.#peers.delete(name)
    }
    const added = members.filter(({ name }) => name !== self && !this.#peers.has(name))
    for (const { name, address } of added) {
      const connection = this.connect(name, address)
      this.#peers.set(name, { address: textOf(address), connection })
    }
    this.#self = this.#table.members.indexOf(self)
    this.#channels = this.#table.members.map(
      (name) => this.#peers.get(name)?.connection ?? this.#own,
    )
  }

  /** Whether this process owns a partition. */
  isOwn(partition: number): boolean {
    return this.#table.ownerOf(partition) === this.#self
  }

  /** Whether this process decides a partition now: as its owner, or for an owner that is silent. */
  isHere(partition: number): boolean {
    return this.shardOf(partition) === this.#self
  }

  /** The channel of a partition's owner; undefined if that is this process, or it is silent. */
  ownerChannel(partition: number): RedisChannel | undefined {
    const owner = this.#table.ownerOf(partition)
    const channel = this.#channels[owner]
    if (channel === undefined || owner === this.#self) return undefined
    return this.#deps.isAnswering(channel) ? channel : undefined
  }

  /**
   * The member that is asked now: the owner, and while it is silent the deputy. While both are, the
   * owner is asked again, and the rules decide by their postures.
   */
  shardOf(partition: number): number {
    const owner = this.#table.ownerOf(partition)
    if (owner === this.#self || this.isAnswering(owner)) return owner
    const deputy = this.#table.deputyOf(partition)
    return deputy === this.#self || this.isAnswering(deputy) ? deputy : owner
  }

  channelOf(slot: number): RedisChannel | undefined {
    const partition = Math.floor(slot / SLOTS_PER_PARTITION)
    const shard = this.shardOf(partition)
    if (shard !== this.#table.ownerOf(partition)) this.#deps.onDeputy()
    return this.#channels[shard]
  }

  channelAt(): undefined {
    return undefined
  }

  channels(): readonly RedisChannel[] {
    return [this.#own, ...this.peers()]
  }

  /** The channels of all other members. */
  peers(): readonly RedisChannel[] {
    return [...this.#peers.values()].map(({ connection }) => connection)
  }

  refresh(): void {
    // The list of members is followed all the time.
  }

  subscribe(): Subscription {
    throw new Error('A ring publishes nothing')
  }

  onReady(listener: (channel: RedisChannel) => void): void {
    this.#listeners.onReady(listener)
  }

  onProblem(listener: (problem: Error) => void): void {
    this.#listeners.onProblem(listener)
  }

  async close(): Promise<void> {
    for (const { connection } of this.#peers.values()) connection.close()
    for (const connection of this.#retired) connection.close()
  }

  /** Closes the connection to a member that left, once it has answered what was sent to it. */
  private retire(connection: NodeConnection): void {
    this.#retired.add(connection)
    this.#deps.scheduler.after(RETIRE_MS, () => {
      this.#retired.delete(connection)
      connection.close()
    })
  }

  private isAnswering(member: number): boolean {
    const channel = this.#channels[member]
    return channel !== undefined && this.#deps.isAnswering(channel)
  }

  private connect(name: string, address: PeerAddress): NodeConnection {
    const { openPeer, random } = this.#deps
    return new NodeConnection(
      { host: name, port: 0 },
      HANDSHAKE,
      {
        openSocket: (_endpoint, events) => openPeer(address, events),
        connectTimeoutMs: CONNECT_TIMEOUT_MS,
        random,
      },
      {
        ready: (connection) => this.#listeners.ready(connection),
        lost: () => {},
        problem: (problem) => this.#listeners.problem(problem),
      },
    )
  }
}

function textOf(address: PeerAddress): string {
  return 'path' in address ? address.path : `${address.host}:${address.port}`
}

/** Runs commands in this process, and answers after the caller has returned. */
class OwnChannel implements RedisChannel {
  readonly address: string
  readonly isReady = true
  readonly #run: PeerDriverDeps['run']

  constructor(address: string, run: PeerDriverDeps['run']) {
    this.address = address
    this.#run = run
  }

  send(...[commands, settle]: Parameters<RedisChannel['send']>): boolean {
    for (const [index, command] of commands.entries()) {
      const reply = this.#run(command.words())
      queueMicrotask(() => settle(index, reply))
    }
    return true
  }

  reconnect(): void {
    // There is no connection.
  }
}
