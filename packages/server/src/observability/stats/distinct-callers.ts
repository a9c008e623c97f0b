/**
 * Estimates the distinct callers of each rule in the last five minutes. Up to 64 callers are
 * counted exactly; more use one sketch (hyper-log-log.ts) for each minute and one for all five.
 *
 * The current minute is one of the five, so an estimate covers four to five minutes. Memory is
 * bounded: rules for which none is left are not counted.
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
 * The bound of all arrays together: about 450 rules with many callers at a time. Each known rule
 * takes about 100 bytes more, so the total stays below 8 MB.
 */
export const CALLERS_BYTES_MAX = 6 * 1024 * 1024
/** Twice the maximum of a rule set, because rules are added and removed. */
const RULES_MAX = 20_000
/** Overhead of an array besides its elements; measured, rounded up. */
const ARRAY_BYTES = 128
const SKETCH_BYTES = (MINUTES + 1) * (REGISTERS + ARRAY_BYTES)

export interface RuleDistinctCallers {
  /** Takes both halves of the caller's hash, at each decision. */
  record(hi: number, lo: number): void
  /** False if memory ran out in this period; the estimate is then meaningless. */
  readonly isCounted: boolean
  /** Exact for up to 64 callers. */
  estimate(): number
  /** The input of `mergeEstimate`; empty without callers. */
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

  /** Always returns the same object for a rule; undefined if there are too many rules. */
  ofRule(rule: string): RuleDistinctCallers | undefined {
    const known = this.#rules.get(rule)
    if (known !== undefined || this.#rules.size >= RULES_MAX) return known
    const made = new CountedCallers(this.#budget, this.#slices)
    this.#rules.set(rule, made)
    return made
  }

  /** Closes minutes that are over; called once a second. */
  tick(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS)
    const passed = minute - (this.#minute ?? minute)
    this.#minute = minute
    if (passed === 0) return
    // After the clock was set back the elapsed time is unknown: one minute is closed.
    const closed = passed < 0 ? 1 : Math.min(passed, MINUTES)
    this.#slices.now += closed
    for (const rule of this.#rules.values()) rule.close(closed)
  }

  /** Estimates of all counted rules; 0 for those without callers in this period. */
  *estimates(): Generator<readonly [rule: string, callers: number]> {
    for (const [rule, callers] of this.#rules) {
      if (callers.isCounted) yield [rule, callers.estimate()]
    }
  }

  /** Memory in use. */
  get bytes(): number {
    return this.#budget.taken
  }
}

/** The number of the current slice, a minute; slices count from 1. */
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

/** Counts one rule: nothing, an exact set or a sketch, as needed and as memory allows. */
class CountedCallers implements RuleDistinctCallers {
  readonly #budget: Budget
  readonly #slices: Slices
  #exact: ExactDistinct | undefined
  #sketch: Sketch | undefined
  /** Bytes reserved from the budget. */
  #bytes = 0
  /** Bytes that could not be reserved, and the slice in which that happened; 0 for none. */
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

  /** Changes the reservation to `bytes`. Returns false and drops everything if it does not fit. */
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

/** A sliding sketch: registers for each minute, and their maximum. */
class Sketch {
  readonly all = makeRegisters()
  /** A ring with the current minute at `#open`. */
  readonly #minutes: readonly Registers[] = Array.from({ length: MINUTES }, makeRegisters)
  #open = 0
  /** Cached; undefined after a change. */
  #estimate: number | undefined

  add(hi: number, lo: number, minutesAgo = 0): void {
    const minute = this.#minutes[(this.#open + MINUTES - minutesAgo) % MINUTES]
    const register = registerOf(lo)
    const rank = rankOf(hi)
    // The common case: few callers raise a register.
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

  /** Returns false if the sketch is empty afterwards. */
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
 * Estimates the distinct callers of several nodes together from the `registers` of each. Exact if
 * all nodes counted exactly. Unreadable texts are ignored.
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
