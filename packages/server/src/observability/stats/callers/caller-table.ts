/**
 * A segmented cache of callers: new callers enter a probationary segment; callers that qualify are
 * promoted to a protected segment and are no longer evicted by newcomers. When the table is full,
 * one in eight newcomers replaces the least recently seen probationary caller: frequent callers
 * soon get in, and callers seen once cannot flush the table.
 */
import { CallerIndex } from './caller-index.js'

export const TABLE_SLOTS = 4096
/** The remaining slots are always available to probationary callers. */
export const PROTECTED_MAX = 3072

/** One newcomer in 2^3 is admitted to a full table. */
const ADMIT_BITS = 3
const NO_SLOT = -1
const FREE = 0
const PROBATIONARY = 1
const PROTECTED = 2

export class CallerTable {
  readonly #index = new CallerIndex(TABLE_SLOTS)
  readonly #states = new Uint8Array(TABLE_SLOTS)
  readonly #lastMs = new Float64Array(TABLE_SLOTS)
  /** Links probationary callers in the order last seen; `#next` also links free slots. */
  readonly #next = new Int16Array(TABLE_SLOTS)
  readonly #previous = new Int16Array(TABLE_SLOTS)
  readonly #labels: (string | undefined)[] = Array.from({ length: TABLE_SLOTS }, () => undefined)
  #newest = NO_SLOT
  #oldest = NO_SLOT
  #firstFree = 0
  #size = 0
  #protectedCount = 0
  #randomState = 0

  constructor() {
    for (let slot = 0; slot < TABLE_SLOTS; slot++) {
      this.#next[slot] = slot + 1 < TABLE_SLOTS ? slot + 1 : NO_SLOT
    }
  }

  get size(): number {
    return this.#size
  }

  get isFull(): boolean {
    return this.#size === TABLE_SLOTS
  }

  get hasProtectedRoom(): boolean {
    return this.#protectedCount < PROTECTED_MAX
  }

  /** Returns the slot of a caller, or -1. */
  find(rule: number, hi: number, lo: number): number {
    return this.#index.find(rule, hi, lo)
  }

  /** Adds an absent caller, probationary and without label; returns -1 if it is not admitted. */
  insert(rule: number, hi: number, lo: number, nowMs: number): number {
    if (this.isFull) {
      if (!this.admitsNewcomer()) return -1
      this.remove(this.#oldest)
    }
    const slot = this.#firstFree
    this.#firstFree = this.#next[slot] ?? NO_SLOT
    this.#size++
    this.#index.insert(slot, rule, hi, lo)
    this.#lastMs[slot] = nowMs
    this.link(slot)
    return slot
  }

  /** Records that the caller was seen again. */
  touch(slot: number, nowMs: number): void {
    this.#lastMs[slot] = nowMs
    if (this.#states[slot] !== PROBATIONARY || slot === this.#newest) return
    this.unlink(slot)
    this.link(slot)
  }

  isProbationary(slot: number): boolean {
    return this.#states[slot] === PROBATIONARY
  }

  isProtected(slot: number): boolean {
    return this.#states[slot] === PROTECTED
  }

  /** Protects a probationary caller; requires `hasProtectedRoom`. */
  promote(slot: number): void {
    this.unlink(slot)
    this.#states[slot] = PROTECTED
    this.#protectedCount++
  }

  /** Makes a protected caller probationary, as the most recently seen one. */
  demote(slot: number): void {
    this.#protectedCount--
    this.link(slot)
  }

  remove(slot: number): void {
    if (this.#states[slot] === PROBATIONARY) this.unlink(slot)
    else this.#protectedCount--
    this.#index.remove(slot)
    this.#states[slot] = FREE
    this.#labels[slot] = undefined
    this.#next[slot] = this.#firstFree
    this.#firstFree = slot
    this.#size--
  }

  /** Visits all callers; the visitor may remove the current one. */
  each(visit: (slot: number) => void): void {
    if (this.#size === 0) return
    for (let slot = 0; slot < TABLE_SLOTS; slot++) if (this.#states[slot] !== FREE) visit(slot)
  }

  removeRule(rule: number): void {
    this.each((slot) => {
      if (this.ruleAt(slot) === rule) this.remove(slot)
    })
  }

  ruleAt(slot: number): number {
    return this.#index.ruleAt(slot)
  }

  hiAt(slot: number): number {
    return this.#index.hiAt(slot)
  }

  loAt(slot: number): number {
    return this.#index.loAt(slot)
  }

  lastMsAt(slot: number): number {
    return this.#lastMs[slot] ?? 0
  }

  setLastMs(slot: number, lastMs: number): void {
    this.#lastMs[slot] = lastMs
  }

  labelAt(slot: number): string | undefined {
    return this.#labels[slot]
  }

  labelOf(rule: number, hi: number, lo: number): string | undefined {
    const slot = this.find(rule, hi, lo)
    return slot === -1 ? undefined : this.labelAt(slot)
  }

  setLabel(slot: number, label: string): void {
    this.#labels[slot] = label
  }

  /** Pseudo-random, so that callers in a fixed rotation are admitted; need not be secure. */
  private admitsNewcomer(): boolean {
    this.#randomState = (Math.imul(this.#randomState, 1_664_525) + 1_013_904_223) | 0
    return this.#randomState >>> (32 - ADMIT_BITS) === 0
  }

  private link(slot: number): void {
    this.#states[slot] = PROBATIONARY
    this.#next[slot] = NO_SLOT
    this.#previous[slot] = this.#newest
    if (this.#newest === NO_SLOT) this.#oldest = slot
    else this.#next[this.#newest] = slot
    this.#newest = slot
  }

  private unlink(slot: number): void {
    const next = this.#next[slot] ?? NO_SLOT
    const previous = this.#previous[slot] ?? NO_SLOT
    if (next === NO_SLOT) this.#newest = previous
    else this.#previous[next] = previous
    if (previous === NO_SLOT) this.#oldest = next
    else this.#next[previous] = next
  }
}
