/**
 * Tracks exhausted callers, which have no budget left, and since when. A bucket refills all the
 * time, so a caller with bursts is admitted and refused every second; it counts as exhausted until
 * it has had budget left for some seconds.
 */
import { CallerTable, TABLE_SLOTS } from './caller-table.js'

/** A caller without calls for this long is no longer exhausted. */
export const SILENT_MS = 60_000
/** A caller with budget left this long after it was exhausted no longer is. */
const ROOM_MS = 5000
/** Decisions carry the time of the last tick, which may be this long ago. */
const TICK_MS = 1000
/** A caller exhausted for this long is protected from newcomers. */
const PROTECTED_AFTER_MS = 10_000

export class ExhaustedCallers {
  readonly table = new CallerTable()
  readonly #sinceMs = new Float64Array(TABLE_SLOTS)
  /** 1 if the caller was refused since then. */
  readonly #refused = new Uint8Array(TABLE_SLOTS)
  /** When its limits have refilled if it makes no further call. */
  readonly #resetMs = new Float64Array(TABLE_SLOTS)
  /** A recently refused call, as text. */
  readonly #calls: (string | undefined)[] = Array.from({ length: TABLE_SLOTS }, () => undefined)

  get size(): number {
    return this.table.size
  }

  /**
   * Records a decision that left no budget; limits have refilled after `resetAfterMs`. Returns a
   * slot that needs a label, or whose refused call is to be updated (once per tick); otherwise -1.
   */
  recordExhausted(
    rule: number,
    hi: number,
    lo: number,
    isRefused: boolean,
    nowMs: number,
    resetAfterMs: number,
  ): number {
    const { table } = this
    const slot = table.find(rule, hi, lo)
    if (slot === -1) return this.insert(rule, hi, lo, isRefused, nowMs, resetAfterMs)
    const isNextTick = table.lastMsAt(slot) !== nowMs
    // It stopped being exhausted and became so again between two ticks.
    if (this.isOver(slot, nowMs)) this.begin(slot, isRefused, nowMs)
    else if (isRefused) this.#refused[slot] = 1
    this.#resetMs[slot] = nowMs + TICK_MS + resetAfterMs
    table.touch(slot, nowMs)
    const isLong = nowMs - this.sinceMsAt(slot) >= PROTECTED_AFTER_MS
    if (isLong && table.isProbationary(slot) && table.hasProtectedRoom) table.promote(slot)
    return (isRefused && isNextTick) || table.labelAt(slot) === undefined ? slot : -1
  }

  /** Records a decision that left budget. */
  recordRemaining(rule: number, hi: number, lo: number, nowMs: number): void {
    const { table } = this
    if (table.size === 0) return
    const slot = table.find(rule, hi, lo)
    if (slot !== -1 && nowMs - table.lastMsAt(slot) >= ROOM_MS) table.remove(slot)
  }

  sinceMsAt(slot: number): number {
    return this.#sinceMs[slot] ?? 0
  }

  /**
   * Whether the caller was refused. With a limit of one call at a time nothing is left after each
   * call, although the caller may never be refused.
   */
  isRefusedAt(slot: number): boolean {
    return this.#refused[slot] === 1
  }

  /** Whether its limits have refilled by now, as far as this node knows. */
  isRefilledAt(slot: number, nowMs: number): boolean {
    return nowMs > (this.#resetMs[slot] ?? 0)
  }

  callAt(slot: number): string | undefined {
    return this.#calls[slot]
  }

  setCall(slot: number, call: string): void {
    this.#calls[slot] = call
  }

  tick(nowMs: number): void {
    const { table } = this
    table.each((slot) => {
      // After the clock was set back, times in the future would keep callers too long.
      if (table.lastMsAt(slot) > nowMs) table.setLastMs(slot, nowMs)
      if (this.sinceMsAt(slot) > nowMs) this.#sinceMs[slot] = nowMs
      if (this.isOver(slot, nowMs)) table.remove(slot)
    })
  }

  /** Whether the caller makes no more calls, or its limits refilled some seconds ago. */
  private isOver(slot: number, nowMs: number): boolean {
    const isSilent = nowMs - this.table.lastMsAt(slot) > SILENT_MS
    return isSilent || nowMs - (this.#resetMs[slot] ?? 0) > ROOM_MS
  }

  private insert(
    rule: number,
    hi: number,
    lo: number,
    isRefused: boolean,
    nowMs: number,
    resetAfterMs: number,
  ): number {
    const isCrowded = this.table.isFull
    const slot = this.table.insert(rule, hi, lo, nowMs)
    if (slot === -1) return -1
    this.begin(slot, isRefused, nowMs)
    this.#resetMs[slot] = nowMs + TICK_MS + resetAfterMs
    return isCrowded ? -1 : slot
  }

  private begin(slot: number, isRefused: boolean, nowMs: number): void {
    this.#sinceMs[slot] = nowMs
    this.#refused[slot] = isRefused ? 1 : 0
    this.#calls[slot] = undefined
  }
}
