/**
 * Callers that have nothing left, and since when. A bucket gives something back all the time, so
 * that whoever calls in bursts finds something left each second and is refused each second: it is
 * at zero until it was not for some seconds.
 */
import { CallerTable, TABLE_SLOTS } from './caller-table.js'

/** Whoever makes no call for as long has left, and is no longer at zero. */
export const SILENT_MS = 60_000
/** Whoever has something left so long after it had nothing is at zero no more. */
const ROOM_MS = 5000
/** Decisions have the time of the last tick, which may be as long ago. */
const TICK_MS = 1000
/** Whoever is at zero for as long is settled: those that come later make room for it. */
const PROTECTED_AFTER_MS = 10_000

export class ExhaustedCallers {
  readonly table = new CallerTable()
  readonly #sinceMs = new Float64Array(TABLE_SLOTS)
  /** 1: it was refused since then. */
  readonly #refused = new Uint8Array(TABLE_SLOTS)
  /** When its limits are whole again, if it makes no further call. */
  readonly #resetMs = new Float64Array(TABLE_SLOTS)
  /** A call of it that was refused lately, as text. */
  readonly #calls: (string | undefined)[] = Array.from({ length: TABLE_SLOTS }, () => undefined)

  get size(): number {
    return this.table.size
  }

  /**
   * A decision that left nothing, and after how long all is back. Returns a slot whose caller wants
   * a name, or for the first time in a tick its refused call told anew; or -1.
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
    // It left and came back before anybody looked.
    if (this.isOver(slot, nowMs)) this.begin(slot, isRefused, nowMs)
    else if (isRefused) this.#refused[slot] = 1
    this.#resetMs[slot] = nowMs + TICK_MS + resetAfterMs
    table.touch(slot, nowMs)
    const isLong = nowMs - this.sinceMsAt(slot) >= PROTECTED_AFTER_MS
    if (isLong && table.isProbationary(slot) && table.hasProtectedRoom) table.promote(slot)
    return (isRefused && isNextTick) || table.labelAt(slot) === undefined ? slot : -1
  }

  /** A decision that left something. */
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
   * Whether it wanted more than it got. Where a limit admits one call at a time, nothing is left
   * after each, and nobody need be short of anything.
   */
  isRefusedAt(slot: number): boolean {
    return this.#refused[slot] === 1
  }

  /** Whether its limits are whole again by now, as far as this node knows. */
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
      // The clock was set back: nobody is kept for as long as that was.
      if (table.lastMsAt(slot) > nowMs) table.setLastMs(slot, nowMs)
      if (this.sinceMsAt(slot) > nowMs) this.#sinceMs[slot] = nowMs
      if (this.isOver(slot, nowMs)) table.remove(slot)
    })
  }

  /** It makes no more calls, or had all of its limits for as long as ends it. */
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
