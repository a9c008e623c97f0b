/**
 * This process as a member of a ring: serves its counters to the others, follows the list of
 * members, and hands over what another one owns. It is the session of the ring's store.
 */
import { type CounterKey, formatHash, hashTexts, sipKey, SluiceError } from '@sluice/core'
import { type Clock, monotonicMs, systemClock } from '../clock.js'
import type { MemoryCounterStore } from '../memory/memory-store.js'
import { PeriodicTask, type Scheduler, systemScheduler } from '../periodic.js'
import type { RedisChannel } from '../redis/connection/driver.js'
import { runOnChannel, wordsCommand } from '../redis/connection/run-command.js'
import type { NodePipeline } from '../redis/pipeline/node-pipeline.js'
import { Router } from '../redis/pipeline/router.js'
import type { SessionDeps } from '../redis/server/redis-session.js'
import type { StoreSession } from '../redis/server/warm-up-session.js'
import type { NodeExchange, StoredCounter } from '../store.js'
import { Homing, type HomingFate } from './homing.js'
import type { MemberList, PeerAddress } from './members.js'
import {
  GO_COMMAND,
  HERE_COMMAND,
  INSPECT_COMMAND,
  PeerCommands,
  STATUS_COMMAND,
} from './peer-commands.js'
import { PeerDriver } from './peer-driver.js'
import { type PeerServer, startPeerServer } from './peer-server.js'
import { type OpenPeer, peerSockets, type PeerTls } from './peer-socket.js'

export interface RingOptions {
  /** The key of all counter hashes, 16 bytes, the same in every member. */
  readonly secret: Uint8Array
  /** The name of this member in the list. */
  readonly self: string
  readonly listen: PeerAddress
  readonly members: MemberList
  /** Required unless all members are on this machine. */
  readonly tls?: PeerTls | undefined
  /** How connections to members are opened. @default sockets of this machine, TCP or TLS */
  readonly openPeer?: OpenPeer | undefined
  readonly clock?: Clock | undefined
  readonly scheduler?: Scheduler | undefined
  readonly random?: (() => number) | undefined
}

/** What a ring measures of itself. */
export interface RingStats {
  /** The members and how many partitions each owns. */
  readonly members: readonly { readonly name: string; readonly partitions: number }[]
  /** Operations that were sent to another member, by its name. */
  readonly forwarded: ReadonlyMap<string, number>
  /** Operations for an owner that was silent. */
  readonly deputy: number
  readonly handedOver: Readonly<Record<HomingFate | 'received', number>>
  /** Counters in this process that another member owns. */
  readonly misplaced: number
  /** Members whose list of members is another one, and for how long in milliseconds. */
  readonly differing: ReadonlyMap<string, number>
  /** Whether this process is in the list of members. */
  readonly isListed: boolean
}

/** How long a member that leaves waits for the others to take over its counters. */
const LEAVE_MS = 2000
/** How often it looks for counters that calls on their way have used meanwhile. */
const LEAVE_EVERY_MS = 20
/** How many looks in a row must find nothing. */
const LEAVE_QUIET = 3
const COMMAND_TIMEOUT_MS = 1000
/** How often members tell each other which members they know. */
const HERE_EVERY_MS = 1000
const TIME = wordsCommand(['TIME'])

export class RingSession implements StoreSession {
  readonly secret: Promise<Uint8Array>
  readonly ready: Promise<void>
  readonly router: Router
  readonly driver: PeerDriver
  readonly exchange: NodeExchange
  readonly #options: RingOptions
  readonly #counters: MemoryCounterStore
  readonly #homing: Homing
  readonly #server: PeerServer
  readonly #forwarded = new Map<string, number>()
  readonly #handedOver = { sent: 0, unknown: 0, received: 0 }
  #deputy = 0
  #status = ''
  /** Since when the view of a member differs, by its name. */
  readonly #differingSinceMs = new Map<string, number>()
  readonly #fingerprint: string
  readonly #beats: PeriodicTask
  #hasJoined = false
  #isLeaving = false
  #leaving: Promise<void> | undefined

  constructor(
    options: RingOptions,
    counters: MemoryCounterStore,
    { observer, ...rest }: SessionDeps,
  ) {
    const deps = { ...rest, observer: { ...observer, problem: problemsOf(observer) } }
    const { self, listen, tls, members, clock = systemClock, random = Math.random } = options
    const scheduler = options.scheduler ?? systemScheduler
    this.#options = options
    this.#counters = counters
    const commands = this.commandsOn(counters, clock, deps.observer)
    this.#fingerprint = formatHash(hashTexts(sipKey(options.secret), ['ring']))
    this.#beats = new PeriodicTask(HERE_EVERY_MS, () => this.announceHere(), scheduler)
    this.driver = new PeerDriver({
      self,
      run: (words) => commands.run(words),
      openPeer: options.openPeer ?? peerSockets(tls),
      random,
      scheduler,
      isAnswering: (channel) => this.router.isAnswering(channel),
      onDeputy: () => (this.#deputy += 1),
    })
    this.driver.onReady((channel) => void this.sendHere(channel))
    this.driver.onProblem(({ message }) => deps.observer.problem(message))
    this.router = new Router(this.driver, {
      ...deps,
      observer: { ...deps.observer, batch: (...args) => this.onBatch(deps, args) },
      random,
      timeCommand: TIME,
      preload: [],
      onAnswering: (pipeline) => {
        this.#homing.wake()
        deps.onAnswering(pipeline)
      },
    })
    this.#homing = new Homing({
      counters,
      clock,
      scheduler,
      isOwn: (partition) => this.driver.isOwn(partition),
      ownerChannel: (partition) => this.driver.ownerChannel(partition),
      onHandedOver: (fate, count) => (this.#handedOver[fate] += count),
      onProblem: (message) => deps.observer.problem(message),
    })
    this.#server = startPeerServer({
      listen,
      tls: 'path' in listen ? undefined : tls,
      run: (words) => commands.run(words),
      onProblem: (message) => deps.observer.problem(message),
    })
    this.exchange = {
      post: async (text) => void (this.#status = text),
      read: () => this.readStatus(),
    }
    // Configured on every member alike, so that nobody has to be asked.
    this.secret = new Promise(() => {})
    this.ready = this.#server.listening.then(
      () => this.join(),
      (error: unknown) => {
        throw unusable(listen, error)
      },
    )
    this.ready.catch(() => {})
    members.onChange(() => this.followMembers())
  }

  fleetSize(): number {
    return Math.max(1, this.driver.table.members.length)
  }

  fleetPlace(): number {
    return Math.max(0, this.driver.table.members.indexOf(this.#options.self))
  }

  pipelines(): readonly NodePipeline[] {
    return this.router.pipelines()
  }

  announce(): void {
    // No member remembers a refusal, so none has to forget one.
  }

  stats(): RingStats {
    const { members } = this.driver.table
    const shares = this.driver.table.shares()
    return {
      members: members.map((name, index) => ({ name, partitions: shares[index] ?? 0 })),
      forwarded: this.#forwarded,
      deputy: this.#deputy,
      handedOver: this.#handedOver,
      misplaced: this.#homing.misplaced,
      differing: this.differing(),
      isListed: members.includes(this.#options.self),
    }
  }

  /** Called with the partition of every counter that is used in this process. */
  onUse(partition: number): void {
    if (!this.driver.isOwn(partition)) this.#homing.onMisplaced(partition)
  }

  /** A session with breakers and clock bounds of its own; closing it closes no connection. */
  openWarmUp(deps: SessionDeps): StoreSession {
    const { random = Math.random } = this.#options
    const router = new Router(this.driver, { ...deps, random, timeCommand: TIME, preload: [] })
    return {
      secret: this.secret,
      ready: this.ready,
      router,
      fleetSize: () => this.fleetSize(),
      fleetPlace: () => this.fleetPlace(),
      pipelines: () => router.pipelines(),
      announce: () => {},
      close: async () => router.close(),
    }
  }

  async inspect(key: CounterKey): Promise<StoredCounter> {
    const channel = this.driver.ownerChannel(key.partition)
    if (channel === undefined) return this.#counters.inspect(key)
    const words = [INSPECT_COMMAND, key.hi | 0, key.lo | 0]
    const reply = await runOnChannel(channel, words, COMMAND_TIMEOUT_MS)
    const { node: _node, ...found } = JSON.parse(String(reply)) as StoredCounter
    return { ...found, node: channel.address }
  }

  /** Counters were restored: some may belong to others. */
  sendHome(): void {
    this.#homing.wake()
  }

  /** Leaves the ring: hands over all counters, as far as the others take them in time. */
  leave(): Promise<void> {
    this.#leaving ??= this.leaveOnce()
    return this.#leaving
  }

  async close(): Promise<void> {
    await this.leave()
    this.#beats.stop()
    this.#homing.close()
    this.router.close()
    await this.driver.close()
    await this.#server.close()
  }

  /** What other members may ask of this one. */
  private commandsOn(
    counters: MemoryCounterStore,
    clock: Clock,
    { problem }: Pick<SessionDeps['observer'], 'problem'>,
  ): PeerCommands {
    const { members } = this.#options
    return new PeerCommands({
      counters,
      clock,
      onUse: (partition) => this.onUse(partition),
      onReceived: (count) => (this.#handedOver.received += count),
      isLeaving: () => this.#leaving !== undefined,
      status: () => this.#status,
      onHere: (name, view, fingerprint) => {
        if (fingerprint !== this.#fingerprint) problem(otherSecret(name))
        else members.onAnnounced?.(name, 'here')
        this.recordView(name, view)
        return this.driver.table.view
      },
      onGone: (name) => members.onAnnounced?.(name, 'gone'),
    })
  }

  private join(): void {
    this.#hasJoined = true
    this.#options.members.join()
    this.followMembers()
    this.#beats.start()
  }

  private followMembers(): void {
    const { members, self } = this.#options
    const named = members.members()
    this.driver.update(this.#isLeaving ? named.filter(({ name }) => name !== self) : named)
    this.router.removeGone()
    this.forgetGone()
    this.#homing.wake()
  }

  /** Nodes that come and go have other names each time. */
  private forgetGone(): void {
    const present = new Set(this.driver.table.members)
    for (const name of this.#forwarded.keys()) if (!present.has(name)) this.#forwarded.delete(name)
    for (const name of this.#differingSinceMs.keys()) {
      if (!present.has(name)) this.#differingSinceMs.delete(name)
    }
  }

  private async leaveOnce(): Promise<void> {
    this.#hasJoined = false
    const { members, self } = this.#options
    const go = (channel: RedisChannel) =>
      runOnChannel(channel, [GO_COMMAND, self], COMMAND_TIMEOUT_MS)
    if (members.onAnnounced !== undefined) await Promise.allSettled(this.driver.peers().map(go))
    await members.leave()
    this.#isLeaving = true
    this.followMembers()
    const untilMs = monotonicMs() + LEAVE_MS
    let quiet = 0
    while (quiet < LEAVE_QUIET && monotonicMs() < untilMs) {
      if (this.driver.peers().length === 0) return
      const before = this.#handedOver.sent + this.#handedOver.unknown
      const isEmpty = await this.#homing.sweep()
      const isQuiet = isEmpty && this.#handedOver.sent + this.#handedOver.unknown === before
      quiet = isQuiet ? quiet + 1 : 0
      await pause(LEAVE_EVERY_MS)
    }
  }

  private async announceHere(): Promise<void> {
    await Promise.all(this.driver.peers().map((channel) => this.sendHere(channel)))
  }

  /** Says to one member that this one is here, and compares the lists of both. */
  private async sendHere(channel: RedisChannel): Promise<void> {
    if (!this.#hasJoined || !channel.isReady) return
    const words = [HERE_COMMAND, this.#options.self, this.driver.table.view, this.#fingerprint]
    try {
      this.recordView(
        channel.address,
        String(await runOnChannel(channel, words, COMMAND_TIMEOUT_MS)),
      )
    } catch {
      // A member that is silent is seen by its breaker.
    }
  }

  private recordView(name: string, view: string): void {
    const isSame = view === this.driver.table.view
    if (isSame || !this.driver.table.members.includes(name)) this.#differingSinceMs.delete(name)
    else if (!this.#differingSinceMs.has(name)) this.#differingSinceMs.set(name, monotonicMs())
  }

  private differing(): ReadonlyMap<string, number> {
    const nowMs = monotonicMs()
    const { members } = this.driver.table
    const known = [...this.#differingSinceMs].filter(([name]) => members.includes(name))
    return new Map(known.map(([name, sinceMs]) => [name, nowMs - sinceMs]))
  }

  private onBatch(deps: SessionDeps, args: Parameters<SessionDeps['observer']['batch']>): void {
    const [address, , takes] = args
    if (address === this.#options.self) return
    this.#forwarded.set(address, (this.#forwarded.get(address) ?? 0) + takes)
    deps.observer.batch(...args)
  }

  /** Members that do not answer are left out. */
  private async readStatus(): Promise<readonly string[]> {
    const ask = async (channel: RedisChannel) =>
      String(await runOnChannel(channel, [STATUS_COMMAND], COMMAND_TIMEOUT_MS))
    const answers = await Promise.allSettled(this.driver.peers().map(ask))
    const others = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    return [this.#status, ...others].filter((text) => text !== '')
  }
}

/** The machinery of the Redis store calls every server Redis. */
function problemsOf(observer: SessionDeps['observer']): (message: string) => void {
  return (message) => observer.problem(message.replace(/^Redis /, 'ring member '))
}

function otherSecret(name: string): string {
  return `${name} has another key secret, so its counters have other names; set SLUICE_KEY_SECRET to the same value on all nodes`
}

function unusable(listen: PeerAddress, error: unknown): SluiceError {
  const where = 'path' in listen ? listen.path : `${listen.host}:${listen.port}`
  const why = error instanceof Error ? error.message : String(error)
  return new SluiceError('STORE_UNFIT', `The ring cannot listen on ${where}: ${why}`)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
