/** Decodes the reply of the script to a batch. `src/lua/batch.lua` writes it. */
import { isConcurrency, layoutOf, type Limit, type Outcome, type Take } from '@sluice/core'
import type { RedisReply } from '../connection/driver.js'
import type { Answer, Groups } from '../../store.js'
import { malformed, NumberReader } from './msgpack.js'
import type { StoreOp } from './batch-request.js'

export interface BatchReply {
  /** Whether the batch arrived after its deadline and did nothing. */
  readonly late: boolean
  /** The store's time in microseconds, at which everything was decided. */
  readonly storeTime: number
  /**
   * For each op: outcomes of a take or peek, undefined for other verbs. `spoiled` means that a
   * counter's key holds a value of another type, and nothing was done.
   */
  readonly answers: readonly (Groups<Answer> | 'spoiled' | undefined)[]
}

/**
 * An outcome is the units left and the time of the reset. If it has more than that, a negative mark
 * precedes it, whose bits say which numbers follow.
 */
const RETRY = 1
const GRANTED = 2
const DELAY = 4
const AT = 8
const STATE = 16
const SPOILED = 32
/** A take of nothing still has a first group. */
const ONE_EMPTY_GROUP: Groups<Answer> = [[]]
const NO_GROUPS: Groups<Answer> = []

export function decodeBatch(ops: readonly StoreOp[], reply: RedisReply): BatchReply {
  if (!(reply instanceof Uint8Array)) throw malformed('no bytes')
  const numbers = new NumberReader(reply)
  const done = numbers.read()
  const storeTime = numbers.readCount()
  if (done !== 0 && done !== 1) throw malformed(`the number ${done} at its start`)
  const late = done === 0
  const answers = late ? [] : ops.map((op) => decodeOp(op, numbers, storeTime))
  numbers.finish()
  return { late, storeTime, answers }
}

function decodeOp(
  op: StoreOp,
  numbers: NumberReader,
  now: number,
): Groups<Answer> | 'spoiled' | undefined {
  if (op.verb === 'take' || op.verb === 'peek') return decodeGroups(op, numbers, now)
  const mark = numbers.read()
  if (mark === -SPOILED) return 'spoiled'
  if (mark !== 0) throw malformed(`the mark ${mark}`)
  return undefined
}

function decodeGroups(
  { verb, groups }: StoreOp & { readonly groups: Groups<Take> },
  numbers: NumberReader,
  now: number,
): Groups<Answer> | 'spoiled' {
  if (groups.length === 0) return verb === 'take' ? ONE_EMPTY_GROUP : NO_GROUPS
  const decoded: Answer[][] = []
  let isFirst = true
  for (const takes of groups) {
    const outcomes: Answer[] = []
    for (const take of takes) {
      const first = numbers.read()
      if (first === -SPOILED && isFirst) return 'spoiled'
      isFirst = false
      const expected = verb === 'take' ? take.amount : 0
      outcomes.push(decodeOutcome(first, expected, take.limit, numbers, now))
    }
    decoded.push(outcomes)
  }
  return decoded
}

/**
 * The most common outcome. A class, not an object literal: V8 pretenures literals that survive a
 * scavenge.
 */
class AdmittedOutcome implements Outcome {
  readonly granted: number
  readonly remaining: number
  readonly resetAfterMs: number
  readonly retryAfterMs = 0
  readonly delayMs = 0
  readonly at: number

  constructor(granted: number, remaining: number, resetAfterMs: number, at: number) {
    this.granted = granted
    this.remaining = remaining
    this.resetAfterMs = resetAfterMs
    this.at = at
  }
}

function decodeOutcome(
  first: number,
  expected: number,
  limit: Limit,
  numbers: NumberReader,
  now: number,
): Answer {
  if (first >= 0) {
    const resetAfterMs = numbers.readCount()
    return new AdmittedOutcome(expected, first, resetAfterMs, now)
  }
  const mark = -first
  if (mark >= SPOILED) throw malformed(`the mark ${first}`)
  const remaining = numbers.readCount()
  const resetAfterMs = numbers.readCount()
  const isRefused = (mark & RETRY) !== 0
  const retry = isRefused ? numbers.readCount() : 1
  const outcome: Outcome = {
    granted: (mark & GRANTED) === 0 ? (isRefused ? 0 : expected) : readGranted(expected, numbers),
    remaining,
    resetAfterMs,
    retryAfterMs: retry === 0 ? null : retry - 1,
    delayMs: (mark & DELAY) === 0 ? 0 : numbers.readCount(),
    at: (mark & AT) === 0 ? now : now + numbers.read(),
  }
  return (mark & STATE) === 0 ? outcome : { ...outcome, state: decodeState(limit, numbers) }
}

/** Only what gives back may have taken less than nothing. */
function readGranted(expected: number, numbers: NumberReader): number {
  return expected < 0 ? numbers.read() : numbers.readCount()
}

/** A state in the shape its algorithm gives it; undefined where there is none. */
function decodeState(limit: Limit, numbers: NumberReader): unknown {
  const size = numbers.readCount()
  if (size === 0) return undefined
  const layout = layoutOf(limit)
  if (layout === undefined) return decodeList(size, isConcurrency(limit) ? 3 : 2, numbers)
  if (size !== layout.fields.length) throw malformed(`a state of ${size} numbers`)
  return layout.decode(numbers)
}

/** The records of a log have two numbers each, those of places three. */
function decodeList(size: number, each: 2 | 3, numbers: NumberReader): readonly number[] {
  if (size > numbers.left || size % each !== 0) throw malformed(`a list of ${size} numbers`)
  return Array.from({ length: size }, () => numbers.readCount())
}
