/** Tracks in which of the last 24 hours each caller reached its limit. */
import { CallerTable, TABLE_SLOTS } from './caller-table.js'

export const HOURS = 24
/** From this many of the last 24 hours on, a caller is listed as needing a higher tier. */
export const HIGHER_TIER_HOURS = 12
const HOUR_MS = 3_600_000
const HOURS_MASK = 2 ** HOURS - 1
/** Callers at their limit in this many hours are protected. */
const PROTECTED_HOURS = 2

export function hourOf(nowMs: number): number {
  return Math.floor(nowMs / HOUR_MS)
}

export function countHours(hours: number): number {
  let count = 0
  for (let left = hours; left !== 0; left &= left - 1) count++
  return count
}

/** Shifts the bits by the hours that have passed. */
export function shiftHours(hours: number, by: number): number {
  return by >= HOURS ? 0 : (hours << by) & HOURS_MASK
}

export class HoursAtLimit {
  readonly table = new CallerTable()
  /** Bit i is the hour i hours ago. */
  readonly #hours = new Int32Array(TABLE_SLOTS)
  #hour: number

  constructor(nowMs: number) {
    this.#hour = hourOf(nowMs)
  }

  get size(): number {
    return this.table.size
  }

  /** The current hour, since 1970. */
  get hour(): number {
    return this.#hour
  }

  /**
   * Records a decision at the limit. Returns a slot that needs a label, or -1; each hour again,
   * because the caller's plan may have changed.
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

  /** Adds stored hours, relative to the current hour. */
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
    // A clock set back slightly reaches this hour again; set back further, hours continue there.
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

  /** Protects a caller, if necessary in place of a protected one with fewer or older hours. */
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

  /** Scans the whole table, at most once an hour for each caller. */
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
