/**
 * How many different callers each rule had in the last five minutes. The first few are known one by
 * one; more are a sketch (hyper-log-log.ts) for each minute and one for all of them together.
 *
 * The minute that is under way counts as one of the five, so what is told is of four to five
 * minutes. Nothing of it decides a call, so where memory ends, a rule is not counted.
 */
import { EXACT_MAX, ExactDistinct } from './exact-distinct.js'
import {
  estimateOf,
  makeRegisters,
  mergeRegisters,
  rankOf,
  readRegisters,
  REGISTERS,
  type Registers,
  registerOf,
  writeRegisters,
} from './hyper-log-log.js'

const MINUTE_MS = 60_000
const MINUTES = 5
/**
 * What the arrays of all rules may take together: some 450 rules with many callers at a time.
 * Beside them each rule that ever came takes about 100 bytes, so all of it stays below 8 MB.
 */
export const CALLERS_BYTES_MAX = 6 * 1024 * 1024
/** A set has at most 10,000 rules, and rules come and go. */
const RULES_MAX = 20_000
/** What an array takes beside its elements; measured, rounded up. */
const ARRAY_BYTES = 128
const SKETCH_BYTES = (MINUTES + 1) * (REGISTERS + ARRAY_BYTES)

export interface RuleDistinctCallers {
  /** Told of every decision: the halves of the caller's hash. */
  record(hi: number, lo: number): void
  /** False: there was no memory for it in this time, and what it tells means nothing. */
  readonly isCounted: boolean
  /** Exact for a few callers. */
  estimate(): number
  /** What `mergeEstimate` takes; empty where nobody came. */
  registers(): string
}

export interface DistinctOptions {
  /** @default CALLERS_BYTES_MAX */
  readonly bytesMax?: number | undefined
}

export class DistinctCallers {
  readonly #budget: Budget
  readonly #rules = new Map<string, CountedCallers>()
  readonly #slices: Slices = { now: 1 }
  #minute: number | undefined

  constructor({ bytesMax = CALLERS_BYTES_MAX }: DistinctOptions = {}) {
    this.#budget = new Budget(bytesMax)
  }

  /** The same one each time, for whoever counts to keep; undefined: there are too many. */
  ofRule(rule: string): RuleDistinctCallers | undefined {
    const known = this.#rules.get(rule)
    if (known !== undefined || this.#rules.size >= RULES_MAX) return known
    const made = new CountedCallers(this.#budget, this.#slices)
    this.#rules.set(rule, made)
    return made
  }

  /** Closes minutes that are over; once a second is enough. */
  tick(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS)
    const passed = minute - (this.#minute ?? minute)
    this.#minute = minute
    if (passed === 0) return
    // A clock that was put back tells nothing of how much time has passed.
    const closed = passed < 0 ? 1 : Math.min(passed, MINUTES)
    this.#slices.now += closed
    for (const rule of this.#rules.values()) rule.close(closed)
  }

  /** Of every rule that is counted; 0 of those without callers in this time. */
  *estimates(): Generator<readonly [rule: string, callers: number]> {
    for (const [rule, callers] of this.#rules) {
      if (callers.isCounted) yield [rule, callers.estimate()]
    }
  }

  /** What is taken of the memory that there is. */
  get bytes(): number {
    return this.#budget.taken
  }
}

/** The number of the slice that is open; each is a minute, and they count from 1. */
interface Slices {
  now: number
}

class Budget {
  readonly #max: number
  taken = 0

  constructor(max: number) {
    this.#max = max
  }

  has(bytes: number): boolean {
    return this.taken + bytes <= this.#max
  }

  take(bytes: number): boolean {
    const isThere = this.has(bytes)
    if (isThere) this.taken += bytes
    return isThere
  }

  give(bytes: number): void {
    this.taken -= bytes
  }
}

/** Nothing, few callers or a sketch, as the rule needs it and as memory allows. */
class CountedCallers implements RuleDistinctCallers {
  readonly #budget: Budget
  readonly #slices: Slices
  #exact: ExactDistinct | undefined
  #sketch: Sketch | undefined
  /** Taken of the budget. */
  #bytes = 0
  /** What was not to be had, and the slice in which that was; 0: nothing. */
  #missed = 0
  #missedIn = 0

  constructor(budget: Budget, slices: Slices) {
    this.#budget = budget
    this.#slices = slices
  }

  get isCounted(): boolean {
    return this.#missed === 0
  }

  record(hi: number, lo: number): void {
    if (this.#sketch !== undefined) this.#sketch.add(hi, lo)
    else if (this.#missed === 0) this.recordExact(hi, lo)
  }

  estimate(): number {
    return this.#sketch?.estimate() ?? this.#exact?.size ?? 0
  }

  registers(): string {
    if (this.#sketch !== undefined) return writeSketch(this.#sketch.all)
    return this.#exact === undefined ? '' : writeExact(this.#exact)
  }

  close(slices: number): void {
    const { now } = this.#slices
    if (this.#sketch !== undefined) {
      if (!this.#sketch.close(slices)) this.forget()
    } else if (this.#exact !== undefined) {
      this.#exact.forget(now - MINUTES)
      if (this.#exact.size === 0) this.forget()
    } else if (now - this.#missedIn >= MINUTES && this.#budget.has(this.#missed)) this.#missed = 0
  }

  private recordExact(hi: number, lo: number): void {
    this.#exact ??= new ExactDistinct()
    if (!this.#exact.add(hi, lo, this.#slices.now)) this.beginSketch(this.#exact, hi, lo)
    else this.reserve(this.#exact.bytes + ARRAY_BYTES)
  }

  private beginSketch(exact: ExactDistinct, hi: number, lo: number): void {
    if (!this.reserve(SKETCH_BYTES)) return
    const sketch = new Sketch()
    exact.each((oneHi, oneLo, slice) => sketch.add(oneHi, oneLo, this.#slices.now - slice))
    sketch.add(hi, lo)
    this.#sketch = sketch
    this.#exact = undefined
  }

  /** Takes as much as is needed now. Where it is not to be had, all of it goes: false. */
  private reserve(bytes: number): boolean {
    if (bytes === this.#bytes) return true
    const isThere = this.#budget.take(bytes - this.#bytes)
    if (isThere) {
      this.#bytes = bytes
      return true
    }
    this.#missed = bytes
    this.#missedIn = this.#slices.now
    this.forget()
    return false
  }

  private forget(): void {
    this.#exact = undefined
    this.#sketch = undefined
    this.#budget.give(this.#bytes)
    this.#bytes = 0
  }
}

/** Many callers: registers of each minute, and those of all together. */
class Sketch {
  readonly all = makeRegisters()
  /** In a ring, with the minute that is open at `#open`. */
  readonly #minutes: readonly Registers[] = Array.from({ length: MINUTES }, makeRegisters)
  #open = 0
  /** Undefined: it has changed since. */
  #estimate: number | undefined

  add(hi: number, lo: number, minutesAgo = 0): void {
    const minute = this.#minutes[(this.#open + MINUTES - minutesAgo) % MINUTES]
    const register = registerOf(lo)
    const rank = rankOf(hi)
    // Nearly always: few callers raise a register.
    if (minute === undefined || rank <= (minute[register] ?? 0)) return
    minute[register] = rank
    if (rank <= (this.all[register] ?? 0)) return
    this.all[register] = rank
    this.#estimate = undefined
  }

  estimate(): number {
    this.#estimate ??= estimateOf(this.all)
    return this.#estimate
  }

  /** False: nobody is left in it. */
  close(minutes: number): boolean {
    for (let i = 0; i < minutes; i++) {
      this.#open = (this.#open + 1) % MINUTES
      this.#minutes[this.#open]?.fill(0)
    }
    this.all.fill(0)
    for (const registers of this.#minutes) mergeRegisters(this.all, registers)
    this.#estimate = undefined
    return this.all.some((rank) => rank > 0)
  }
}

const HASH_BYTES = 8
const SKETCH_MARK = 's'
const EXACT_MARK = 'f'

function writeSketch(registers: Registers): string {
  return SKETCH_MARK + writeRegisters(registers)
}

function writeExact(exact: ExactDistinct): string {
  const bytes = Buffer.alloc(exact.size * HASH_BYTES)
  let at = 0
  exact.each((hi, lo) => {
    at = bytes.writeInt32LE(lo, bytes.writeInt32LE(hi, at))
  })
  return EXACT_MARK + bytes.toString('base64')
}

/**
 * How many callers several nodes had together, from what `registers` gave on each. Exact where all
 * of them had few. A text that cannot be read counts for nothing.
 */
export function mergeEstimate(texts: readonly string[]): number {
  const sketches = texts.flatMap(readSketch)
  const exact = Buffer.concat(texts.flatMap(readExact))
  if (sketches.length === 0) return countHashes(exact)
  const all = makeRegisters()
  for (const registers of sketches) mergeRegisters(all, registers)
  for (let at = 0; at < exact.length; at += HASH_BYTES) {
    const register = registerOf(exact.readInt32LE(at + 4))
    all[register] = Math.max(all[register] ?? 0, rankOf(exact.readInt32LE(at)))
  }
  return estimateOf(all)
}

function readSketch(text: string): readonly Registers[] {
  const registers = text.startsWith(SKETCH_MARK) ? readRegisters(text.slice(1)) : undefined
  return registers === undefined ? [] : [registers]
}

function readExact(text: string): readonly Buffer[] {
  const bytes = text.startsWith(EXACT_MARK) ? Buffer.from(text.slice(1), 'base64') : undefined
  const isWhole = bytes !== undefined && bytes.length % HASH_BYTES === 0
  return isWhole && bytes.length <= EXACT_MAX * HASH_BYTES ? [bytes] : []
}

function countHashes(bytes: Buffer): number {
  const hashes = new Set<bigint>()
  for (let at = 0; at < bytes.length; at += HASH_BYTES) hashes.add(bytes.readBigInt64LE(at))
  return hashes.size
}
