/**
 * From a 64-bit hash to a record: open addressing over 32-bit entries, 5 to 6.5 bytes a record.
 *
 * It grows without a pause: the larger table fills while the old one empties, at most MOVES slots a
 * call.
 */
import type { Slab } from './slab.js'

/**
 * A slot holds a record + 1 in its low bits and a few bits of the hash above, so that a search
 * looks at a record, which is a cache miss, only where it is most likely the right one.
 */
const RECORD_BITS = 26
const RECORD_MASK = (1 << RECORD_BITS) - 1
const EMPTY = 0
const MOVED = RECORD_MASK
/** The most records an index can tell apart. */
export const RECORDS_MAX = RECORD_MASK - 1
const SLOTS_MIN = 1024
const LOAD_MAX = 0.72
const GROWTH = 1.3
const MOVES = 64

export class HashIndex {
  readonly #slab: Slab
  #slots = new Uint32Array(SLOTS_MIN)
  #count = 0
  #old: Uint32Array | undefined
  #oldCursor = 0

  constructor(slab: Slab) {
    this.#slab = slab
  }

  get bytes(): number {
    return this.#slots.byteLength + (this.#old?.byteLength ?? 0)
  }

  /** The record of a hash, or -1. */
  find(hi: number, lo: number): number {
    if (this.#old !== undefined) this.move()
    const slot = this.slotOf(this.#slots, hi, lo)
    if (slot !== -1) return recordIn(this.#slots[slot] ?? 0)
    if (this.#old === undefined) return -1
    const oldSlot = this.slotOf(this.#old, hi, lo)
    return oldSlot === -1 ? -1 : recordIn(this.#old[oldSlot] ?? 0)
  }

  /** Files a record under its own hash, which must not be there. */
  insert(record: number): void {
    if (this.#old !== undefined) this.move()
    if (this.#old === undefined && this.#count >= this.#slots.length * LOAD_MAX) this.grow()
    this.put(record)
    this.#count += 1
  }

  remove(hi: number, lo: number): void {
    const slot = this.slotOf(this.#slots, hi, lo)
    if (slot !== -1) {
      this.close(slot)
      this.#count -= 1
      return
    }
    const old = this.#old
    const oldSlot = old === undefined ? -1 : this.slotOf(old, hi, lo)
    if (old === undefined || oldSlot === -1) return
    old[oldSlot] = MOVED
    this.#count -= 1
  }

  private slotOf(slots: Uint32Array, hi: number, lo: number): number {
    const size = slots.length
    const tag = tagOf(hi)
    for (let slot = home(lo, size); ; slot = slot + 1 === size ? 0 : slot + 1) {
      const entry = slots[slot]
      if (entry === EMPTY || entry === undefined) return -1
      if (tagIn(entry) !== tag || entry === MOVED) continue
      if (this.#slab.has(recordIn(entry), hi, lo)) return slot
    }
  }

  private put(record: number): void {
    const slots = this.#slots
    const size = slots.length
    let slot = home(this.#slab.lo(record), size)
    while (slots[slot] !== EMPTY) slot = slot + 1 === size ? 0 : slot + 1
    slots[slot] = (tagOf(this.#slab.hi(record)) << RECORD_BITS) | (record + 1)
  }

  private grow(): void {
    this.#old = this.#slots
    this.#oldCursor = 0
    this.#slots = new Uint32Array(Math.ceil(this.#slots.length * GROWTH))
  }

  private move(): void {
    const old = this.#old
    if (old === undefined) return
    const end = Math.min(old.length, this.#oldCursor + MOVES)
    for (let slot = this.#oldCursor; slot < end; slot++) {
      const entry = old[slot]
      if (entry === undefined || entry === EMPTY || entry === MOVED) continue
      this.put(recordIn(entry))
      // Not emptied: the chains of those not yet moved lead through here.
      old[slot] = MOVED
    }
    this.#oldCursor = end
    if (end === old.length) this.#old = undefined
  }

  /** Empties a slot and moves back what was pushed past it, so that no chain breaks. */
  private close(hole: number): void {
    const slots = this.#slots
    const size = slots.length
    let free = hole
    for (let slot = hole + 1 === size ? 0 : hole + 1; ; slot = slot + 1 === size ? 0 : slot + 1) {
      const entry = slots[slot]
      if (entry === undefined || entry === EMPTY) break
      const wanted = home(this.#slab.lo(recordIn(entry)), size)
      const reach = slot >= wanted ? slot - wanted : slot + size - wanted
      const gap = slot >= free ? slot - free : slot + size - free
      if (reach < gap) continue
      slots[free] = entry
      free = slot
    }
    slots[free] = EMPTY
  }
}

function recordIn(entry: number): number {
  return (entry & RECORD_MASK) - 1
}

function tagIn(entry: number): number {
  return entry >>> RECORD_BITS
}

function tagOf(hi: number): number {
  return hi >>> RECORD_BITS
}

/**
 * The slot a hash belongs to: its low word as a share of the table, which need be no power of two.
 */
function home(lo: number, size: number): number {
  return Math.floor(((lo >>> 0) / 0x100000000) * size)
}
