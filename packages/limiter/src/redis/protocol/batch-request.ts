/**
 * Encodes a batch for the script: the keys of its counters, and one array of whole numbers that
 * `src/lua/request.lua` and `src/lua/batch.lua` read:
 *
 *     not after, now, counters with a value, lists, counters only reset, hashes,
 *     packed layout: the hash of each value, limits, the numbers of each, ops
 */
import { isBlock, isConcurrency, type Take } from '@sluice/core'
import {
  HASH_DIGITS,
  HASHES_PER_PARTITION,
  hashNumber,
  keyHead,
  requirePrefix,
} from './redis-keys.js'
import type { Give, Groups } from '../../store.js'
import { BatchPlan, LIMIT_NUMBERS } from './batch-plan.js'
import { BatchCommand, CommandWriter, type EncodedBatch } from './batch-command.js'
import type { CounterTable } from './counter-table.js'
import { NumberWriter } from './msgpack.js'
import {
  BATCH,
  giveOneScript,
  settleOneScript,
  type BatchScript,
  takeOneScript,
  takeTwoScript,
} from './batch-scripts.js'
import { requireCount, type StoreOp } from './store-op.js'

export type { EncodedBatch } from './batch-command.js'
export type { StoreOp } from './store-op.js'

export interface CodecOptions {
  readonly prefix: string
  readonly layout: 'plain' | 'packed'
  /** The hash tag of each partition. */
  readonly tags: readonly string[]
}

/** Encodes operations as one command. */
export interface BatchEncoder {
  encode(ops: readonly StoreOp[], times: BatchTimes): EncodedBatch
}

export interface BatchTimes {
  /** The store's time after which the batch must not run, in microseconds; 0 for no bound. */
  readonly notAfter: number
  /** The time to decide at, in microseconds; 0 for the store's own. */
  readonly now: number
}

const TAKE = 1
const PEEK = 2
const GIVE = 3
const CHARGE = 4
const RESET = 5
/** A single take, the most common op, in a shorter form. */
const TAKE_ONE = 6
/** Two groups of one take each, such as a settle, also in a shorter form. */
const TAKE_PAIR = 7
const COUNTER_DIGITS = 16
const FIELD_BYTES = 8
const FIELDS_AT_FIRST = 512
const NOTHING = new Uint8Array(0)
/** EVALSHA, the script, and the number of its keys. */
const WORDS_BEFORE_KEYS = 3

export class BatchCodec implements BatchEncoder {
  readonly #isPacked: boolean
  readonly #heads: readonly Uint8Array[]
  readonly #hashHeads: readonly Uint8Array[]
  readonly #plan: BatchPlan
  readonly #numbers = new NumberWriter()
  readonly #command = new CommandWriter()
  /** Packed layout: the script's number of each hash in the batch, by its place. */
  readonly #hashes = new Map<number, number>()
  #fields = Buffer.allocUnsafe(FIELD_BYTES * FIELDS_AT_FIRST)

  constructor({ prefix, layout, tags }: CodecOptions) {
    this.#isPacked = layout === 'packed'
    const heads = tags.map((tag) => keyHead(requirePrefix(prefix), tag))
    this.#heads = heads.map((head) => wordHead(head, COUNTER_DIGITS))
    this.#hashHeads = heads.map((head) => wordHead(`${head}p`, HASH_DIGITS))
    this.#plan = new BatchPlan({ partitions: tags.length, hasSeparateLists: this.#isPacked })
  }

  encode(ops: readonly StoreOp[], { notAfter, now }: BatchTimes): EncodedBatch {
    requireCount('notAfter', notAfter)
    requireCount('now', now)
    // The latest time is a good estimate of when it runs: deadlines are far shorter than a day.
    this.#plan.make(ops, now > 0 ? now : notAfter)
    this.#numbers.start()
    this.#numbers.write(notAfter)
    this.#numbers.write(now)
    return this.encodeSingle(ops) ?? this.encodeBatch(ops)
  }

  private encodeBatch(ops: readonly StoreOp[]): EncodedBatch {
    const plan = this.#plan
    const numbers = this.#numbers
    numbers.write(plan.values)
    numbers.write(plan.lists)
    numbers.write(plan.counters.size - plan.values - plan.lists)
    if (this.#isPacked) this.writeHashes()
    else numbers.write(0)
    numbers.write(plan.limits.length)
    for (const limit of plan.limits) numbers.append(limit, LIMIT_NUMBERS)
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i]
      if (op !== undefined) this.writeOp(op)
    }
    return this.writeCommand(this.scriptOf(ops))
  }

  /** Encodes a batch of one op, if there is a script for it. */
  private encodeSingle(ops: readonly StoreOp[]): EncodedBatch | undefined {
    const op = ops[0]
    if (this.#isPacked || ops.length !== 1 || op === undefined) return undefined
    if (op.verb === 'give') return this.encodeGiveOne(op.give)
    if (op.verb !== 'take' || op.states) return undefined
    return this.encodeTakeOne(op.groups) ?? this.encodeTakeTwo(op.groups)
  }

  /** The script of a batch that is encoded like any, and is a single call. */
  private scriptOf(ops: readonly StoreOp[]): BatchScript {
    const op = ops[0]
    if (this.#isPacked || ops.length !== 1 || op?.verb !== 'take' || op.states) return BATCH
    const [first, second] = isPair(op.groups) ? [op.groups[0]?.[0], op.groups[1]?.[0]] : []
    if (first === undefined || second === undefined || lastNumberOf(first) !== 0) return BATCH
    const { limits, counters } = this.#plan
    const isDistinct = limits.length === 2 && counters.size === 2
    return (isDistinct ? settleOneScript(first.limit, second.limit) : undefined) ?? BATCH
  }

  private encodeTakeOne(groups: Groups<Take>): EncodedBatch | undefined {
    const take = onlyTakeOf(groups)
    const limit = this.#plan.limits[0]
    if (take === undefined || limit === undefined) return undefined
    const script = takeOneScript(take.limit)
    if (script === undefined) return undefined
    this.#numbers.append(limit, LIMIT_NUMBERS)
    this.#numbers.write(take.amount)
    return this.writeCommand(script)
  }

  private encodeTakeTwo(groups: Groups<Take>): EncodedBatch | undefined {
    const [first, second] = groups.flat()
    const [limit, otherLimit] = this.#plan.limits
    const isApart = groups[0]?.length === 1 && groups.every((takes) => takes.length <= 1)
    if (!isApart || first === undefined || second === undefined) return undefined
    if (groups.flat().length !== 2 || lastNumberOf(first) !== 0 || lastNumberOf(second) !== 0) {
      return undefined
    }
    const script = takeTwoScript(first.limit, second.limit)
    if (script === undefined || limit === undefined || this.#plan.counters.size !== 2) {
      return undefined
    }
    this.#numbers.append(limit, LIMIT_NUMBERS)
    this.#numbers.append(otherLimit ?? limit, LIMIT_NUMBERS)
    this.#numbers.write(first.amount)
    this.#numbers.write(second.amount)
    return this.writeCommand(script)
  }

  private encodeGiveOne(give: Give): EncodedBatch | undefined {
    const script = giveOneScript(give.limit)
    const limit = this.#plan.limits[0]
    if (script === undefined || limit === undefined) return undefined
    this.#numbers.append(limit, LIMIT_NUMBERS)
    this.writeGive(give)
    return this.writeCommand(script)
  }

  private writeGive({ amount, at, undone }: Give): void {
    this.#numbers.write(amount)
    this.#numbers.write(at === undefined ? 0 : at + 1)
    this.#numbers.write(undone === true ? 1 : 0)
  }

  private writeOp(op: StoreOp): void {
    const numbers = this.#numbers
    switch (op.verb) {
      case 'take':
        this.writeTake(op.groups, op.states)
        return
      case 'peek':
        this.writeGroups(PEEK, op.groups, op.states)
        return
      case 'give':
        numbers.write(GIVE)
        this.writeReference()
        this.writeGive(op.give)
        return
      case 'charge':
        numbers.write(CHARGE)
        this.writeReference()
        numbers.write(op.charge.amount)
        numbers.write(op.charge.at)
        numbers.write(op.charge.debt)
        return
      case 'reset':
        numbers.write(RESET)
        numbers.write(this.#plan.nextCounter())
        numbers.write(this.#isPacked ? this.#plan.nextCounter() : 0)
    }
  }

  private writeTake(groups: Groups<Take>, states: boolean): void {
    if (!states && isPair(groups)) {
      this.#numbers.write(TAKE_PAIR)
      for (const [take] of groups) if (take !== undefined) this.writeItem(take)
      return
    }
    const take = states ? undefined : onlyTakeOf(groups)
    if (take === undefined) {
      this.writeGroups(TAKE, groups, states)
      return
    }
    this.#numbers.write(TAKE_ONE)
    this.writeReference()
    this.#numbers.write(take.amount)
  }

  private writeGroups(verb: number, groups: Groups<Take>, states: boolean): void {
    const numbers = this.#numbers
    numbers.write(verb)
    numbers.write(states ? 1 : 0)
    numbers.write(groups.length)
    for (const takes of groups) {
      numbers.write(takes.length)
      for (const take of takes) this.writeItem(take)
    }
  }

  private writeItem(take: Take): void {
    this.writeReference()
    this.#numbers.write(take.amount)
    this.#numbers.write(lastNumberOf(take))
  }

  private writeReference(): void {
    this.#numbers.write(this.#plan.nextCounter())
    this.#numbers.write(this.#plan.nextLimit())
  }

  /** Writes how many hashes there are, then the hash of each value. */
  private writeHashes(): void {
    const { counters, values } = this.#plan
    const hashes = this.#hashes
    hashes.clear()
    for (let number = 1; number <= values; number++) {
      const place = placeOf(counters, this.#plan.counterAt(number))
      if (!hashes.has(place)) hashes.set(place, hashes.size + 1)
    }
    this.#numbers.write(hashes.size)
    for (let number = 1; number <= values; number++) {
      this.#numbers.write(hashes.get(placeOf(counters, this.#plan.counterAt(number))) ?? 0)
    }
  }

  private writeCommand(script: BatchScript): EncodedBatch {
    const { counters, values } = this.#plan
    const command = this.#command
    const hashed = this.#isPacked ? values : 0
    const keys = this.#hashes.size + counters.size - hashed
    command.start(script, WORDS_BEFORE_KEYS + keys + (this.#isPacked ? 2 : 1))
    command.number(keys)
    for (const place of this.#hashes.keys()) {
      const head = this.#hashHeads[Math.floor(place / HASHES_PER_PARTITION)]
      command.hex(head ?? NOTHING, place % HASHES_PER_PARTITION, HASH_DIGITS)
    }
    for (let number = hashed + 1; number <= counters.size; number++) {
      const counter = this.#plan.counterAt(number)
      const head = this.#heads[counters.partition(counter)]
      command.hex64(head ?? NOTHING, counters.hi(counter), counters.lo(counter))
    }
    command.bytes(this.#numbers.finish())
    if (this.#isPacked) command.bytes(this.fields())
    return new BatchCommand(command.finish(), script)
  }

  /** The field names of the values in their hashes, in order. */
  private fields(): Uint8Array {
    const { counters, values } = this.#plan
    const size = FIELD_BYTES * values
    if (this.#fields.length < size) this.#fields = Buffer.allocUnsafe(2 * size)
    for (let number = 1; number <= values; number++) {
      const counter = this.#plan.counterAt(number)
      const at = FIELD_BYTES * (number - 1)
      this.#fields.writeInt32BE(counters.hi(counter), at)
      this.#fields.writeInt32BE(counters.lo(counter), at + FIELD_BYTES / 2)
    }
    return this.#fields.subarray(0, size)
  }
}

/** The last number of a take that gates, or gives back into the present window. */
const GATE = -1
const PRESENT = -1
const OVERDRAW = -2

/**
 * The last number of a take, 0 for most: of a block whether marks precede it, of an amount below 0
 * when it was taken, of places their holder, else what it does besides taking the whole amount.
 */
function lastNumberOf(take: Take): number {
  const { limit, amount, atLeast } = take
  if (isBlock(limit)) return take.isAfterMarks === true ? 1 : 0
  if (amount < 0) return take.at === undefined ? PRESENT : take.at + 1
  if (amount > 0 && isConcurrency(limit)) return take.holder ?? 0
  if (amount > 0 ? take.overdraw === true : take.gate === true) return amount > 0 ? OVERDRAW : GATE
  return atLeast === undefined ? 0 : atLeast + 1
}

/**
 * The take of a call with one limit that takes all or nothing, and names no holder; undefined for
 * any other call.
 */
function onlyTakeOf(groups: Groups<Take>): Take | undefined {
  const takes = groups[0]
  const take = takes?.[0]
  if (groups.length !== 1 || takes?.length !== 1 || take === undefined) return undefined
  return lastNumberOf(take) === 0 ? take : undefined
}

/** Whether a call has two groups of one take each. */
function isPair(groups: Groups<Take>): boolean {
  return groups.length === 2 && groups[0]?.length === 1 && groups[1]?.length === 1
}

/** The number of a counter's hash within the prefix. */
function placeOf(counters: CounterTable, counter: number): number {
  return counters.partition(counter) * HASHES_PER_PARTITION + hashNumber(counters.lo(counter))
}

/** The length of an argument in the protocol, and all of it but the last digits. */
function wordHead(head: string, digits: number): Uint8Array {
  return Buffer.from(`$${head.length + digits}\r\n${head}`)
}
