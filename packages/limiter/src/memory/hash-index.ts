/**
 * Maps a 64-bit hash to a record: open addressing over 32-bit entries, 5 to 6.5 bytes per record.
 *
 * It grows incrementally: each call moves at most MOVES slots from the old table to the larger one.
 */
import type { Slab } from './slab.js'

/**
 * A slot holds a record + 1 in its low bits and a few bits of the hash above, so that a search
 * reads a record, which is a cache miss, only if it is most likely the right one.
 */
const RECORD_BITS = 26
const RECORD_MASK = (1 << RECORD_BITS) - 1
const EMPTY = 0
const MOVED = RECORD_MASK
/** The most records of an index. */
export const RECORDS_MAX = RECORD_MASK - 1
const SLOTS_MIN = 1024
const LOAD_MAX = 0.72
const GROWTH = 1.3
const MOVES = 64

const SEGMENT_BITS = 16
const SEGMENT_SLOTS = 1 << SEGMENT_BITS
const SEGMENT_MASK = SEGMENT_SLOTS - 1

/**
 * Slots in segments that are allocated on the first write: clearing one array of 30 MB would take
 * several milliseconds in one call.
 */
class SlotTable {
  readonly size: number
  readonly #segments: (Uint32Array | undefined)[]
  #bytes = 0

  constructor(size: number) {
    this.size = size
    this.#segments = Array.from({ length: Math.ceil(size / SEGMENT_SLOTS) }, () => undefined)
  }

  get bytes(): number {
    return this.#bytes
  }

  get(slot: number): number {
    const segment = this.#segments[slot >>> SEGMENT_BITS]
    return segment === undefined ? EMPTY : (segment[slot & SEGMENT_MASK] ?? EMPTY)
  }

  set(slot: number, entry: number): void {
    const segment = this.#segments[slot >>> SEGMENT_BITS] ?? this.extend(slot)
    segment[slot & SEGMENT_MASK] = entry
  }

  private extend(slot: number): Uint32Array {
    const number = slot >>> SEGMENT_BITS
    const made = new Uint32Array(Math.min(SEGMENT_SLOTS, this.size - number * SEGMENT_SLOTS))
    this.#segments[number] = made
    this.#bytes += made.byteLength
    return made
  }
}

export class HashIndex {
  readonly #slab: Slab
  #slots = new SlotTable(SLOTS_MIN)
  #count = 0
  #old: SlotTable | undefined
  #oldCursor = 0

  constructor(slab: Slab) {
    this.#slab = slab
  }

  get bytes(): number {
    return this.#slots.bytes + (this.#old?.bytes ?? 0)
  }

  /** Returns the record of a hash, or -1. */
  find(hi: number, lo: number): number {
    if (this.#old !== undefined) this.move()
    const slot = this.slotOf(this.#slots, hi, lo)
    if (slot !== -1) return recordIn(this.#slots.get(slot))
    if (this.#old === undefined) return -1
    const oldSlot = this.slotOf(this.#old, hi, lo)
    return oldSlot === -1 ? -1 : recordIn(this.#old.get(oldSlot))
  }

  /** Inserts a record under its own hash, which must not be present. */
  insert(record: number): void {
    if (this.#old !== undefined) this.move()
    if (this.#old === undefined && this.#count >= this.#slots.size * LOAD_MAX) this.grow()
    this.place(record)
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
    old.set(oldSlot, MOVED)
    this.#count -= 1
  }

  private slotOf(slots: SlotTable, hi: number, lo: number): number {
    const { size } = slots
    const tag = tagOf(hi)
    for (let slot = home(lo, size); ; slot = slot + 1 === size ? 0 : slot + 1) {
      const entry = slots.get(slot)
      if (entry === EMPTY) return -1
      if (tagIn(entry) !== tag || entry === MOVED) continue
      if (this.#slab.has(recordIn(entry), hi, lo)) return slot
    }
  }

  private place(record: number): void {
    const slots = this.#slots
    const { size } = slots
    let slot = home(this.#slab.lo(record), size)
    while (slots.get(slot) !== EMPTY) slot = slot + 1 === size ? 0 : slot + 1
    slots.set(slot, (tagOf(this.#slab.hi(record)) << RECORD_BITS) | (record + 1))
  }

  private grow(): void {
    this.#old = this.#slots
    this.#oldCursor = 0
    this.#slots = new SlotTable(Math.ceil(this.#slots.size * GROWTH))
  }

  private move(): void {
    const old = this.#old
    if (old === undefined) return
    const end = Math.min(old.size, this.#oldCursor + MOVES)
    for (let slot = this.#oldCursor; slot < end; slot++) {
      const entry = old.get(slot)
      if (entry === EMPTY || entry === MOVED) continue
      this.place(recordIn(entry))
      // Not emptied, because chains of slots that have not moved yet lead through here.
      old.set(slot, MOVED)
    }
    this.#oldCursor = end
    if (end === old.size) this.#old = undefined
  }

  /** Empties a slot and shifts later entries of its chain back, so that no chain breaks. */
  private close(hole: number): void {
    const slots = this.#slots
    const { size } = slots
    let free = hole
    for (let slot = hole + 1 === size ? 0 : hole + 1; ; slot = slot + 1 === size ? 0 : slot + 1) {
      const entry = slots.get(slot)
      if (entry === EMPTY) break
      const wanted = home(this.#slab.lo(recordIn(entry)), size)
      const reach = slot >= wanted ? slot - wanted : slot + size - wanted
      const gap = slot >= free ? slot - free : slot + size - free
      if (reach < gap) continue
      slots.set(free, entry)
      free = slot
    }
    slots.set(free, EMPTY)
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
 * Returns the first slot of a hash: its low word scaled to the table, whose size need not be a
 * power of two.
 */
function home(lo: number, size: number): number {
  return Math.floor(((lo >>> 0) / 0x100000000) * size)
}
