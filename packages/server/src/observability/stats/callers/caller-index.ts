/**
 * Maps a rule and a caller's hash to a slot of a table: open addressing over typed arrays, so that
 * a lookup allocates nothing. Hashes are keyed, so callers cannot provoke collisions.
 */

/** Cells for each slot, so that most lookups hit at once. */
const CELLS_PER_SLOT = 4
const EMPTY = 0
/** Separates the callers of rules with the same `by`, whose hashes are equal. */
const RULE_SPREAD = 0x9e3779b1

export class CallerIndex {
  /** For each slot the rule number and both halves of the hash. */
  readonly #keys: Int32Array
  /** Slot + 1; 0 is empty. */
  readonly #cells: Uint16Array
  readonly #mask: number

  /** `slots` is a power of two, at most 2^14. */
  constructor(slots: number) {
    this.#keys = new Int32Array(slots * 3)
    this.#cells = new Uint16Array(slots * CELLS_PER_SLOT)
    this.#mask = slots * CELLS_PER_SLOT - 1
  }

  /** Returns the slot of a caller, or -1. */
  find(rule: number, hi: number, lo: number): number {
    const keys = this.#keys
    const cells = this.#cells
    const mask = this.#mask
    for (let cell = home(rule, lo) & mask; ; cell = (cell + 1) & mask) {
      const slot = (cells[cell] ?? EMPTY) - 1
      if (slot === -1) return -1
      const at = slot * 3
      // Halves of a hash may be signed or unsigned.
      if (keys[at + 2] === (lo | 0) && keys[at + 1] === (hi | 0) && keys[at] === rule) return slot
    }
  }

  /** Adds an absent caller under a free slot. */
  insert(slot: number, rule: number, hi: number, lo: number): void {
    const keys = this.#keys
    const cells = this.#cells
    const mask = this.#mask
    keys[slot * 3] = rule
    keys[slot * 3 + 1] = hi
    keys[slot * 3 + 2] = lo
    let cell = home(rule, lo) & mask
    while (cells[cell] !== EMPTY) cell = (cell + 1) & mask
    cells[cell] = slot + 1
  }

  /** Removes the caller of a slot, which must be in use. */
  remove(slot: number): void {
    const mask = this.#mask
    let cell = this.homeOf(slot)
    while (this.#cells[cell] !== slot + 1) cell = (cell + 1) & mask
    this.close(cell)
  }

  ruleAt(slot: number): number {
    return this.#keys[slot * 3] ?? 0
  }

  hiAt(slot: number): number {
    return this.#keys[slot * 3 + 1] ?? 0
  }

  loAt(slot: number): number {
    return this.#keys[slot * 3 + 2] ?? 0
  }

  clear(): void {
    this.#cells.fill(EMPTY)
  }

  /** Empties a cell and moves displaced entries back, so that no probe chain breaks. */
  private close(hole: number): void {
    const cells = this.#cells
    const mask = this.#mask
    let free = hole
    for (let cell = (hole + 1) & mask; ; cell = (cell + 1) & mask) {
      const entry = cells[cell] ?? EMPTY
      if (entry === EMPTY) break
      const reach = (cell - this.homeOf(entry - 1)) & mask
      if (reach < ((cell - free) & mask)) continue
      cells[free] = entry
      free = cell
    }
    cells[free] = EMPTY
  }

  private homeOf(slot: number): number {
    return home(this.ruleAt(slot), this.loAt(slot)) & this.#mask
  }
}

function home(rule: number, lo: number): number {
  return lo ^ Math.imul(rule, RULE_SPREAD)
}
