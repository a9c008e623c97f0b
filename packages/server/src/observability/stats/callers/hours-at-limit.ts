/** In which of the last 24 hours each caller came to its limit. */
import { CallerTable, TABLE_SLOTS } from './caller-table.js'

export const HOURS = 24
/** Of the last 24: who was at its limit in fewer is no candidate for a higher tier. */
export const HIGHER_TIER_HOURS = 12
const HOUR_MS = 3_600_000
const HOURS_MASK = 2 ** HOURS - 1
/** Whoever came in as many hours is settled. */
const PROTECTED_HOURS = 2

export function hourOf(nowMs: number): number {
  return Math.floor(nowMs / HOUR_MS)
}

export function countHours(hours: number): number {
  let count = 0
  for (let left = hours; left !== 0; left &= left - 1) count++
  return count
}

/** Hours as they are told so many hours later. */
export function shiftHours(hours: number, by: number): number {
  return by >= HOURS ? 0 : (hours << by) & HOURS_MASK
}

export class HoursAtLimit {
  readonly table = new CallerTable()
  /** Bit i: the hour i hours ago. */
  readonly #hours = new Int32Array(TABLE_SLOTS)
  #hour: number

  constructor(nowMs: number) {
    this.#hour = hourOf(nowMs)
  }

  get size(): number {
    return this.table.size
  }

  /** The present hour, since 1970. */
  get hour(): number {
    return this.#hour
  }

  /**
   * A decision that brought a caller to its limit. Returns a slot whose caller wants a name, or -1;
   * each hour anew, because its plan may have changed.
   */
  record(rule: number, hi: number, lo: number, nowMs: number): number {
    const { table } = this
    const slot = table.find(rule, hi, lo)
    if (slot === -1) return this.begin(rule, hi, lo, nowMs)
    table.touch(slot, nowMs)
    const hours = this.hoursAt(slot)
    if ((hours & 1) === 1) return table.labelAt(slot) === undefined ? slot : -1
    this.#hours[slot] = hours | 1
    this.promote(slot)
    return slot
  }

  hoursAt(slot: number): number {
    return this.#hours[slot] ?? 0
  }

  /** What was kept over a restart, told as of the present hour. */
  restore(
    rule: number,
    hi: number,
    lo: number,
    hours: number,
    lastMs: number,
    name: string | undefined,
  ): void {
    const { table } = this
    const known = table.find(rule, hi, lo)
    const slot = known === -1 ? table.insert(rule, hi, lo, lastMs) : known
    if (slot === -1) return
    this.#hours[slot] = hours | (known === -1 ? 0 : this.hoursAt(slot))
    if (name !== undefined && table.labelAt(slot) === undefined) table.setLabel(slot, name)
    this.promote(slot)
  }

  tick(nowMs: number): void {
    const hour = hourOf(nowMs)
    const elapsed = hour - this.#hour
    // A clock that was set back by a moment comes here again; by more, the hours go on from there.
    if (elapsed === 0 || elapsed === -1) return
    this.#hour = hour
    if (elapsed < 0) return
    const { table } = this
    table.each((slot) => {
      const hours = shiftHours(this.hoursAt(slot), elapsed)
      this.#hours[slot] = hours
      if (hours === 0) table.remove(slot)
      else if (table.isProtected(slot) && countHours(hours) < PROTECTED_HOURS) table.demote(slot)
    })
  }

  private begin(rule: number, hi: number, lo: number, nowMs: number): number {
    const isCrowded = this.table.isFull
    const slot = this.table.insert(rule, hi, lo, nowMs)
    if (slot === -1) return -1
    this.#hours[slot] = 1
    return isCrowded ? -1 : slot
  }

  /** Where there is no room it takes that of the settled one with fewer hours, or less recent. */
  private promote(slot: number): void {
    const { table } = this
    if (!table.isProbationary(slot) || countHours(this.hoursAt(slot)) < PROTECTED_HOURS) return
    if (!table.hasProtectedRoom) {
      const least = this.leastProtected()
      if (!this.isLess(least, slot)) return
      table.demote(least)
    }
    table.promote(slot)
  }

  /** A look at the whole table: at most once an hour for each caller. */
  private leastProtected(): number {
    const { table } = this
    let least = -1
    table.each((slot) => {
      if (table.isProtected(slot) && (least === -1 || this.isLess(slot, least))) least = slot
    })
    return least
  }

  private isLess(a: number, b: number): boolean {
    const difference = countHours(this.hoursAt(a)) - countHours(this.hoursAt(b))
    return difference === 0 ? this.table.lastMsAt(a) < this.table.lastMsAt(b) : difference < 0
  }
}
