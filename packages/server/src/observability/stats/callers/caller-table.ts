/**
 * A bounded table of callers in two parts. Everybody comes in as a guest; whoever proves to be
 * worth it is settled, and leaves no more for the sake of others. When the table is full, the guest
 * that was not seen for longest makes room, for one in eight that come: whoever comes often is soon
 * in, and has the longer to prove itself. So callers that come once cannot wash out those that
 * matter, cost little, and keep nobody out.
 */
import { CallerIndex } from './caller-index.js'

export const TABLE_SLOTS = 4096
/** What is left over is always there for guests. */
export const PROTECTED_MAX = 3072

/** One in 2^3 is let in. */
const ADMIT_BITS = 3
const NO_SLOT = -1
const FREE = 0
const PROBATIONARY = 1
const PROTECTED = 2

export class CallerTable {
  readonly #index = new CallerIndex(TABLE_SLOTS)
  readonly #states = new Uint8Array(TABLE_SLOTS)
  readonly #lastMs = new Float64Array(TABLE_SLOTS)
  /** Guests in the order they were last seen; `later` also chains free slots. */
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

  /** The slot of a caller, or -1. */
  find(rule: number, hi: number, lo: number): number {
    return this.#index.find(rule, hi, lo)
  }

  /** Takes in a caller that is not here, as a guest without a name; -1: it is not its turn. */
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

  /** Seen again. */
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

  /** Of a guest, where there is room. */
  promote(slot: number): void {
    this.unlink(slot)
    this.#states[slot] = PROTECTED
    this.#protectedCount++
  }

  /** A guest again, seen last of all: it is the last to make room. */
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

  /** May remove the one that it is told. */
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

  /** As good as chance against callers that come in turns; nothing is won by guessing it. */
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
