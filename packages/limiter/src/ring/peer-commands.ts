/** Runs the commands that other members of a ring send, on the counters of this process. */
import {
  isConcurrency,
  layoutOf,
  type Limit,
  type Outcome,
  STORED_ALGORITHMS,
  type Take,
} from '@sluice/core'
import { type Clock } from '../clock.js'
import { readSnapshot } from '../memory/memory-snapshot.js'
import type { MemoryCounterStore } from '../memory/memory-store.js'
import { type RedisReply, RedisReplyError } from '../redis/connection/driver.js'
import { malformed } from '../redis/protocol/msgpack.js'
import type { StoreOp } from '../redis/protocol/store-op.js'
import type { Groups } from '../store.js'
import {
  BATCH_COMMAND,
  type BatchRequest,
  hashOfLimit,
  readBatch,
  ReplyFrames,
} from './batch-frame.js'

/** Takes counters of another member: a snapshot of them. */
export const HOME_COMMAND = 'RING.HOME'
/** The latest text of this member for the others. */
export const STATUS_COMMAND = 'RING.STATUS'
/** Shows where a counter is stored: its hash as two numbers. */
export const INSPECT_COMMAND = 'RING.INSPECT'

/** A member says that it is here: its name, its view of the ring, and a mark of its secret. */
export const HERE_COMMAND = 'RING.HERE'
/** A member says that it goes: its name. */
export const GO_COMMAND = 'RING.GO'
/** The longest name of a member: a host name and a port. */
const NAME_LENGTH_MAX = 300

/** The limits known by their hash; when there are more, all are forgotten and sent again. */
const LIMITS_MAX = 200_000
const PONG = Buffer.from('PONG')
const OK = Buffer.from('OK')

export interface PeerCommandsDeps {
  readonly counters: MemoryCounterStore
  readonly clock: Clock
  /** Called with the partition of every counter that a peer uses here. */
  readonly onUse: (partition: number) => void
  /** Called with the number of counters that a peer has handed over. */
  readonly onReceived: (counters: number) => void
  /** Whether this member is handing its own counters over, or has. */
  readonly isLeaving: () => boolean
  readonly status: () => string
  /** Another member announced itself with a name, a view and a fingerprint. Returns our view. */
  readonly onHere: (name: string, view: string, fingerprint: string) => string
  readonly onGone: (name: string) => void
}

export class PeerCommands {
  readonly #deps: PeerCommandsDeps
  readonly #limits = new Map<number, Limit>()
  readonly #replies = new ReplyFrames()

  constructor(deps: PeerCommandsDeps) {
    this.#deps = deps
  }

  /** Never throws: what it cannot run is answered with an error. */
  run(words: readonly (string | Buffer)[]): RedisReply | RedisReplyError {
    const [name, ...rest] = words
    const args = rest.map((word) => (typeof word === 'string' ? Buffer.from(word) : word))
    try {
      return this.runCommand(String(name), args)
    } catch (error) {
      return new RedisReplyError(`ERR ${messageOf(error)}`)
    }
  }

  private runCommand(name: string, args: readonly Buffer[]): RedisReply | RedisReplyError {
    const { clock, counters, status } = this.#deps
    const [first = Buffer.alloc(0), second] = args
    switch (name) {
      case BATCH_COMMAND:
        return this.runBatch(first, second)
      case 'TIME':
        return timeWords(clock.now())
      case 'PING':
        return PONG
      case HOME_COMMAND:
        return this.receive(first)
      case STATUS_COMMAND:
        return Buffer.from(status())
      case HERE_COMMAND: {
        const [member = '', view = '', fingerprint = ''] = args.map(String)
        return Buffer.from(this.#deps.onHere(requireName(member), view, fingerprint))
      }
      case GO_COMMAND:
        this.#deps.onGone(requireName(String(first)))
        return OK
      case INSPECT_COMMAND: {
        const [hi = 0, lo = 0] = args.map(Number)
        return Buffer.from(
          JSON.stringify(counters.inspect({ hi: hi | 0, lo: lo | 0, partition: 0 })),
        )
      }
      default:
        return new RedisReplyError('ERR unknown command of a ring')
    }
  }

  private runBatch(payload: Buffer, limits: Buffer | undefined): RedisReply | RedisReplyError {
    let request: BatchRequest | undefined
    try {
      if (limits !== undefined) this.learnLimits(limits)
      request = readBatch(payload, (hi, lo) => this.#limits.get(limitName(hi, lo)))
    } catch (error) {
      return nothingRan(error)
    }
    if (request === undefined)
      return new RedisReplyError('NOSCRIPT a limit of this batch is not known')
    const now = this.#deps.clock.now()
    if (request.notAfter > 0 && now > request.notAfter) return this.#replies.late(now)
    this.#replies.start(1, now)
    for (const op of request.ops) this.runOp(op, now)
    return this.#replies.finish()
  }

  private runOp(op: StoreOp, now: number): void {
    const { counters } = this.#deps
    switch (op.verb) {
      case 'take':
      case 'peek':
        this.runTakes(op.verb, op.groups, op.states, now)
        return
      case 'give':
        this.use(op.give.key.partition)
        counters.give(op.give)
        break
      case 'charge':
        this.use(op.charge.key.partition)
        counters.charge(op.charge)
        break
      case 'reset':
        counters.reset(op.key)
    }
    this.#replies.done()
  }

  private runTakes(
    verb: 'take' | 'peek',
    groups: Groups<Take>,
    states: boolean,
    now: number,
  ): void {
    const { counters } = this.#deps
    const outcomes: Groups<Outcome> =
      verb === 'take' ? counters.take(groups) : counters.peek(groups)
    for (const [g, takes] of groups.entries()) {
      for (const [i, take] of takes.entries()) {
        const outcome = outcomes[g]?.[i]
        if (outcome === undefined) throw malformed('a take without an outcome')
        const { key, limit, amount } = take
        if (verb === 'take') this.use(key.partition)
        const hasState = needsState(outcome, limit, states)
        const state = hasState ? counters.read(key, limit) : undefined
        const stated = { ...outcome, state, hasState }
        this.#replies.outcome(stated, verb === 'take' ? amount : 0, limit, now)
      }
    }
  }

  private use(partition: number): void {
    this.#deps.onUse(partition)
  }

  private receive(snapshot: Buffer): RedisReply | RedisReplyError {
    // They would be lost if it had saved its own already.
    if (this.#deps.isLeaving()) return new RedisReplyError('READONLY this member leaves the ring')
    let counters: ReturnType<typeof readSnapshot>
    try {
      counters = readSnapshot(snapshot)
    } catch (error) {
      return nothingRan(error)
    }
    this.#deps.counters.merge(counters)
    for (const { key } of counters) this.use(key.partition)
    this.#deps.onReceived(counters.length)
    return OK
  }

  /** A limit that the sender of a batch described, by the hash of what it wrote. */
  private learnLimits(text: Buffer): void {
    const limits: unknown = JSON.parse(text.toString())
    if (!Array.isArray(limits)) throw malformed('limits that are no list')
    if (this.#limits.size + limits.length > LIMITS_MAX) this.#limits.clear()
    for (const limit of limits as readonly Limit[]) {
      if (!isKnownLimit(limit)) throw malformed('a limit of another version')
      const { hi, lo } = hashOfLimit(JSON.stringify(limit))
      this.#limits.set(limitName(hi, lo), limit)
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The code says that nothing has run, and that an operator has to look. */
function nothingRan(error: unknown): RedisReplyError {
  return new RedisReplyError(`MISCONF ${messageOf(error)}`)
}

/** Whether this version counts by its algorithm; during an upgrade a member may not. */
function isKnownLimit({ algorithm, format }: Partial<Limit>): boolean {
  return STORED_ALGORITHMS.some((each) => each.name === algorithm && each.format === format)
}

function requireName(name: string): string {
  if (name.length > 0 && name.length <= NAME_LENGTH_MAX) return name
  throw malformed('a member without a name')
}

/** Whether the answer to a take carries the state: see `Answer` of the store. */
export function needsState(outcome: Outcome, limit: Limit, states: boolean): boolean {
  if (states) return true
  return outcome.retryAfterMs !== 0 && (layoutOf(limit) !== undefined || isConcurrency(limit))
}

/** 53 bits of the hash, which a number can hold. */
function limitName(hi: number, lo: number): number {
  return hi * 2 ** 21 + (lo >>> 11)
}

function timeWords(us: number): RedisReply {
  const seconds = Math.floor(us / 1_000_000)
  return [Buffer.from(String(seconds)), Buffer.from(String(us - seconds * 1_000_000))]
}
