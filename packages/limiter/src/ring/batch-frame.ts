/**
 * A batch of operations as members of a ring send it to each other, and the reply to it. Both are
 * whole numbers in MessagePack; the reply is that of the script in Redis (`batch-reply.ts`).
 *
 *     version, not after, limits, two numbers of the hash of each, operations, and for each:
 *       1 take or 2 peek: states, groups, and for each its takes
 *       3 give, 4 charge, 5 reset
 *
 * A member sends a limit by the hash of its text. One that the receiver does not know is sent again
 * with the text, as a script is to a Redis that has not loaded it.
 */
import { createHash } from 'node:crypto'
import {
  type CounterKey,
  isConcurrency,
  layoutOf,
  type Limit,
  type Outcome,
  shortenLog,
  type Log,
  type Take,
} from '@sluice/core'
import { type RedisCommand } from '../redis/connection/driver.js'
import { wordsCommand } from '../redis/connection/run-command.js'
import type { BatchTimes, EncodedBatch, StoreOp } from '../redis/protocol/batch-request.js'
import { malformed, NumberReader, NumberWriter } from '../redis/protocol/msgpack.js'
import type { Charge, Give, Groups } from '../store.js'

/** The command that carries a batch. */
export const BATCH_COMMAND = 'RING.BATCH'

/** Below 128, as a list of numbers must begin. */
const FRAME_VERSION = 1
const TAKE = 1
const PEEK = 2
const GIVE = 3
const CHARGE = 4
const RESET = 5
/** What a take has besides key, limit and amount: a bit each, then the numbers in this order. */
const GATE = 1
const OVERDRAW = 2
const DURABLE = 4
const AFTER_MARKS = 8
const AT = 16
const AT_LEAST = 32
const HOLDER = 64
/** Bounds of one batch: more than a pipeline ever sends. */
const OPS_MAX = 4096
const TAKES_MAX = 4096
const LIMITS_MAX = 4096

interface LimitEntry {
  readonly hi: number
  readonly lo: number
  readonly text: string
  /** Its place in the last batch that used it. */
  batch: number
  place: number
}

/** Encodes batches for peers. */
export class BatchFrames {
  readonly #numbers = new NumberWriter()
  readonly #known = new WeakMap<Limit, LimitEntry>()
  #batch = 0
  #limits: LimitEntry[] = []

  encode(ops: readonly StoreOp[], { notAfter }: BatchTimes): EncodedBatch {
    this.#batch += 1
    this.#limits = []
    for (const op of ops) this.addLimits(op)
    const numbers = this.#numbers
    numbers.start()
    numbers.write(FRAME_VERSION)
    numbers.write(notAfter)
    numbers.write(this.#limits.length)
    for (const { hi, lo } of this.#limits) {
      numbers.write(hi)
      numbers.write(lo)
    }
    numbers.write(ops.length)
    for (const op of ops) this.writeOp(op)
    const payload = Buffer.from(numbers.finish())
    const limits = this.#limits
    return {
      command: wordsCommand([BATCH_COMMAND, payload]),
      get fallback(): RedisCommand {
        return wordsCommand([BATCH_COMMAND, payload, `[${limits.map(({ text }) => text).join()}]`])
      },
    }
  }

  private addLimits(op: StoreOp): void {
    if (op.verb === 'give') this.addLimit(op.give.limit)
    else if (op.verb === 'charge') this.addLimit(op.charge.limit)
    else if (op.verb !== 'reset') {
      for (const takes of op.groups) for (const { limit } of takes) this.addLimit(limit)
    }
  }

  private addLimit(limit: Limit): void {
    let entry = this.#known.get(limit)
    if (entry === undefined) {
      const text = JSON.stringify(limit)
      entry = { ...hashOfLimit(text), text, batch: 0, place: 0 }
      this.#known.set(limit, entry)
    }
    if (entry.batch === this.#batch) return
    entry.batch = this.#batch
    entry.place = this.#limits.length
    this.#limits.push(entry)
  }

  private writeOp(op: StoreOp): void {
    const numbers = this.#numbers
    switch (op.verb) {
      case 'take':
      case 'peek':
        numbers.write(op.verb === 'take' ? TAKE : PEEK)
        numbers.write(op.states ? 1 : 0)
        numbers.write(op.groups.length)
        for (const takes of op.groups) {
          numbers.write(takes.length)
          for (const take of takes) this.writeTake(take)
        }
        return
      case 'give': {
        const { key, limit, amount, at, undone } = op.give
        numbers.write(GIVE)
        this.writeCounter(key, limit)
        numbers.write(amount)
        numbers.write(at === undefined ? 0 : at + 1)
        numbers.write(undone === true ? 1 : 0)
        return
      }
      case 'charge': {
        const { key, limit, amount, at, debt } = op.charge
        numbers.write(CHARGE)
        this.writeCounter(key, limit)
        numbers.write(amount)
        numbers.write(at)
        numbers.write(debt)
        return
      }
      case 'reset':
        numbers.write(RESET)
        this.writeKey(op.key)
    }
  }

  private writeTake(take: Take): void {
    const { key, limit, amount, at, atLeast, holder } = take
    const numbers = this.#numbers
    this.writeCounter(key, limit)
    numbers.write(amount)
    numbers.write(
      (take.gate === true ? GATE : 0) |
        (take.overdraw === true ? OVERDRAW : 0) |
        (take.durable === true ? DURABLE : 0) |
        (take.isAfterMarks === true ? AFTER_MARKS : 0) |
        (at === undefined ? 0 : AT) |
        (atLeast === undefined ? 0 : AT_LEAST) |
        (holder === undefined ? 0 : HOLDER),
    )
    if (at !== undefined) numbers.write(at)
    if (atLeast !== undefined) numbers.write(atLeast)
    if (holder !== undefined) numbers.write(holder)
  }

  private writeCounter(key: CounterKey, limit: Limit): void {
    this.writeKey(key)
    this.#numbers.write(this.#known.get(limit)?.place ?? 0)
  }

  private writeKey({ hi, lo, partition }: CounterKey): void {
    this.#numbers.write(hi >>> 0)
    this.#numbers.write(lo >>> 0)
    this.#numbers.write(partition)
  }
}

/** Names a limit by its text: the first 64 bits of SHA-256. */
export function hashOfLimit(text: string): { readonly hi: number; readonly lo: number } {
  const digest = createHash('sha256').update(text).digest()
  return { hi: digest.readUInt32BE(0), lo: digest.readUInt32BE(4) }
}

/** A batch as a peer sent it. */
export interface BatchRequest {
  /** The time after which it does nothing, in microseconds; 0 for no bound. */
  readonly notAfter: number
  readonly ops: readonly StoreOp[]
}

/** Finds a limit by its hash; undefined if it is not known. */
export type FindLimit = (hi: number, lo: number) => Limit | undefined

/** Throws STORE_FAILED for what `BatchFrames` does not write. Undefined: a limit is not known. */
export function readBatch(payload: Uint8Array, findLimit: FindLimit): BatchRequest | undefined {
  const numbers = new NumberReader(payload)
  const version = numbers.readCount()
  if (version !== FRAME_VERSION) throw malformed(`the version ${version}`)
  const notAfter = numbers.readCount()
  const limits: Limit[] = []
  const count = bounded(numbers.readCount(), LIMITS_MAX, 'limits')
  for (let i = 0; i < count; i++) {
    const limit = findLimit(numbers.readCount(), numbers.readCount())
    if (limit === undefined) return undefined
    limits.push(limit)
  }
  const opCount = bounded(numbers.readCount(), OPS_MAX, 'operations')
  const ops: StoreOp[] = []
  for (let i = 0; i < opCount; i++) ops.push(readOp(numbers, limits))
  numbers.finish()
  return { notAfter, ops }
}

function readOp(numbers: NumberReader, limits: readonly Limit[]): StoreOp {
  const verb = numbers.readCount()
  switch (verb) {
    case TAKE:
    case PEEK: {
      const states = numbers.readCount() === 1
      return { verb: verb === TAKE ? 'take' : 'peek', states, groups: readGroups(numbers, limits) }
    }
    case GIVE:
      return { verb: 'give', give: readGive(numbers, limits) }
    case CHARGE:
      return { verb: 'charge', charge: readCharge(numbers, limits) }
    case RESET:
      return { verb: 'reset', key: readKey(numbers) }
    default:
      throw malformed(`the operation ${verb}`)
  }
}

function readGroups(numbers: NumberReader, limits: readonly Limit[]): Groups<Take> {
  const groups: Take[][] = []
  const count = bounded(numbers.readCount(), TAKES_MAX, 'groups')
  for (let g = 0; g < count; g++) {
    const takes: Take[] = []
    const size = bounded(numbers.readCount(), TAKES_MAX, 'takes')
    for (let i = 0; i < size; i++) takes.push(readTake(numbers, limits))
    groups.push(takes)
  }
  return groups
}

function readTake(numbers: NumberReader, limits: readonly Limit[]): Take {
  const key = readKey(numbers)
  const limit = readLimit(numbers, limits)
  const amount = numbers.read()
  const flags = numbers.readCount()
  if (flags === 0) return { key, limit, amount }
  return {
    key,
    limit,
    amount,
    ...((flags & GATE) !== 0 && { gate: true }),
    ...((flags & OVERDRAW) !== 0 && { overdraw: true }),
    ...((flags & DURABLE) !== 0 && { durable: true }),
    ...((flags & AFTER_MARKS) !== 0 && { isAfterMarks: true }),
    ...((flags & AT) !== 0 && { at: numbers.readCount() }),
    ...((flags & AT_LEAST) !== 0 && { atLeast: numbers.readCount() }),
    ...((flags & HOLDER) !== 0 && { holder: numbers.readCount() }),
  }
}

function readGive(numbers: NumberReader, limits: readonly Limit[]): Give {
  const key = readKey(numbers)
  const limit = readLimit(numbers, limits)
  const amount = numbers.readCount()
  const at = numbers.readCount()
  const undone = numbers.readCount() === 1
  return { key, limit, amount, at: at === 0 ? undefined : at - 1, undone }
}

function readCharge(numbers: NumberReader, limits: readonly Limit[]): Charge {
  const key = readKey(numbers)
  const limit = readLimit(numbers, limits)
  const [amount, at, debt] = [numbers.readCount(), numbers.readCount(), numbers.readCount()]
  return { key, limit, amount, at, debt }
}

function readKey(numbers: NumberReader): CounterKey {
  const hi = numbers.readCount() | 0
  const lo = numbers.readCount() | 0
  return { hi, lo, partition: numbers.readCount() }
}

function readLimit(numbers: NumberReader, limits: readonly Limit[]): Limit {
  const place = numbers.readCount()
  const limit = limits[place]
  if (limit === undefined) throw malformed(`the limit ${place}`)
  return limit
}

function bounded(count: number, most: number, what: string): number {
  if (count <= most) return count
  throw malformed(`${count} ${what}`)
}

/** The marks of an outcome, as in `batch-reply.ts`. */
const REFUSED = 1
const GRANTED = 2
const DELAYED = 4
const OTHER_TIME = 8
const WITH_STATE = 16

/** What `ReplyFrames` writes of one take. */
export interface StatedOutcome extends Outcome {
  readonly state?: unknown
  /** Whether the state is written. */
  readonly hasState: boolean
}

/** Encodes the reply to a batch. */
export class ReplyFrames {
  readonly #numbers = new NumberWriter()

  /** The reply to a batch that came too late and did nothing. */
  late(now: number): Buffer {
    this.start(0, now)
    return this.finish()
  }

  start(done: 0 | 1, now: number): void {
    this.#numbers.start()
    this.#numbers.write(done)
    this.#numbers.write(now)
  }

  /** A give, charge or reset was done. */
  done(): void {
    this.#numbers.write(0)
  }

  /** `expected` is what a take that passes is granted. */
  outcome(outcome: StatedOutcome, expected: number, limit: Limit, now: number): void {
    const { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at, state } = outcome
    const numbers = this.#numbers
    const isRefused = retryAfterMs !== 0
    const mark =
      (isRefused ? REFUSED : 0) |
      (granted === (isRefused ? 0 : expected) ? 0 : GRANTED) |
      (delayMs === 0 ? 0 : DELAYED) |
      (at === now ? 0 : OTHER_TIME) |
      (outcome.hasState ? WITH_STATE : 0)
    if (mark !== 0) numbers.write(-mark)
    numbers.write(remaining)
    numbers.write(resetAfterMs)
    if (isRefused) numbers.write(retryAfterMs === null ? 0 : retryAfterMs + 1)
    if ((mark & GRANTED) !== 0) numbers.write(granted)
    if ((mark & DELAYED) !== 0) numbers.write(delayMs)
    if ((mark & OTHER_TIME) !== 0) numbers.write(at - now)
    if (outcome.hasState) this.writeState(state, limit)
  }

  finish(): Buffer {
    return Buffer.from(this.#numbers.finish())
  }

  private writeState(state: unknown, limit: Limit): void {
    const values = numbersOfState(state, limit)
    this.#numbers.write(values.length)
    for (const value of values) this.#numbers.write(value)
  }
}

function numbersOfState(state: unknown, limit: Limit): readonly number[] {
  if (state === undefined) return []
  const layout = layoutOf(limit)
  if (layout !== undefined) {
    const fields = state as Readonly<Record<string, number>>
    return layout.fields.map(({ name }) => fields[name] ?? 0)
  }
  return isConcurrency(limit) ? (state as readonly number[]) : shortenLog(state as Log)
}
