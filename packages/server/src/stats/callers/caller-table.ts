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
export const SETTLED_MAX = 3072

/** One in 2^3 is let in. */
const LET_IN_BITS = 3
const NOBODY = -1
const FREE = 0
const GUEST = 1
const SETTLED = 2

export class CallerTable {
  readonly #index = new CallerIndex(TABLE_SLOTS)
  readonly #states = new Uint8Array(TABLE_SLOTS)
  readonly #lastMs = new Float64Array(TABLE_SLOTS)
  /** Guests in the order they were last seen; `later` also chains free slots. */
  readonly #later = new Int16Array(TABLE_SLOTS)
  readonly #earlier = new Int16Array(TABLE_SLOTS)
  readonly #names: (string | undefined)[] = Array.from({ length: TABLE_SLOTS }, () => undefined)
  #latest = NOBODY
  #earliest = NOBODY
  #firstFree = 0
  #size = 0
  #settled = 0
  #drawn = 0

  constructor() {
    for (let slot = 0; slot < TABLE_SLOTS; slot++) {
      this.#later[slot] = slot + 1 < TABLE_SLOTS ? slot + 1 : NOBODY
    }
  }

  get size(): number {
    return this.#size
  }

  get isFull(): boolean {
    return this.#size === TABLE_SLOTS
  }

  get hasSettledRoom(): boolean {
    return this.#settled < SETTLED_MAX
  }

  /** The slot of a caller, or -1. */
  find(rule: number, hi: number, lo: number): number {
    return this.#index.find(rule, hi, lo)
  }

  /** Takes in a caller that is not here, as a guest without a name; -1: it is not its turn. */
  enter(rule: number, hi: number, lo: number, nowMs: number): number {
    if (this.isFull) {
      if (!this.draw()) return -1
      this.remove(this.#earliest)
    }
    const slot = this.#firstFree
    this.#firstFree = this.#later[slot] ?? NOBODY
    this.#size++
    this.#index.put(slot, rule, hi, lo)
    this.#lastMs[slot] = nowMs
    this.link(slot)
    return slot
  }

  /** Seen again. */
  touch(slot: number, nowMs: number): void {
    this.#lastMs[slot] = nowMs
    if (this.#states[slot] !== GUEST || slot === this.#latest) return
    this.unlink(slot)
    this.link(slot)
  }

  isGuest(slot: number): boolean {
    return this.#states[slot] === GUEST
  }

  isSettled(slot: number): boolean {
    return this.#states[slot] === SETTLED
  }

  /** Of a guest, where there is room. */
  settle(slot: number): void {
    this.unlink(slot)
    this.#states[slot] = SETTLED
    this.#settled++
  }

  /** A guest again, seen last of all: it is the last to make room. */
  unsettle(slot: number): void {
    this.#settled--
    this.link(slot)
  }

  remove(slot: number): void {
    if (this.#states[slot] === GUEST) this.unlink(slot)
    else this.#settled--
    this.#index.drop(slot)
    this.#states[slot] = FREE
    this.#names[slot] = undefined
    this.#later[slot] = this.#firstFree
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

  nameAt(slot: number): string | undefined {
    return this.#names[slot]
  }

  nameOf(rule: number, hi: number, lo: number): string | undefined {
    const slot = this.find(rule, hi, lo)
    return slot === -1 ? undefined : this.nameAt(slot)
  }

  setName(slot: number, name: string): void {
    this.#names[slot] = name
  }

  /** As good as chance against callers that come in turns; nothing is won by guessing it. */
  private draw(): boolean {
    this.#drawn = (Math.imul(this.#drawn, 1_664_525) + 1_013_904_223) | 0
    return this.#drawn >>> (32 - LET_IN_BITS) === 0
  }

  private link(slot: number): void {
    this.#states[slot] = GUEST
    this.#later[slot] = NOBODY
    this.#earlier[slot] = this.#latest
    if (this.#latest === NOBODY) this.#earliest = slot
    else this.#later[this.#latest] = slot
    this.#latest = slot
  }

  private unlink(slot: number): void {
    const later = this.#later[slot] ?? NOBODY
    const earlier = this.#earlier[slot] ?? NOBODY
    if (later === NOBODY) this.#latest = earlier
    else this.#earlier[later] = earlier
    if (earlier === NOBODY) this.#earliest = later
    else this.#later[earlier] = later
  }
}
