/**
 * The reservations that this node made and must end itself when they expire. Those of a killed node
 * stay as they are.
 */
import type { Hash64, ReservationHandle } from '@sluice/core'
import type { Scheduler } from '../periodic.js'

/** More are not remembered, and stay charged when they expire. About 50 MB. */
const OPEN_MAX = 100_000
/**
 * A settle that is sent in the last moment must win over the expiry, wherever it comes from.
 */
const GRACE_MS = 1000

export interface OpenReservationsDeps {
  /** The store's time, in microseconds. */
  readonly time: () => number
  readonly scheduler: Scheduler
  readonly onExpired: (handle: ReservationHandle) => void
}

export class OpenReservations {
  readonly #deps: OpenReservationsDeps
  readonly #cancelById = new Map<string, () => void>()
  #isClosed = false

  constructor(deps: OpenReservationsDeps) {
    this.#deps = deps
  }

  get size(): number {
    return this.#cancelById.size
  }

  /** An extended reservation replaces the one before; `isRefunded` if it must be ended here. */
  add(handle: ReservationHandle, isRefunded: boolean): void {
    this.delete(handle)
    if (!isRefunded || this.#isClosed || this.#cancelById.size >= OPEN_MAX) return
    const { time, scheduler, onExpired } = this.#deps
    const leftMs = Math.max(0, Math.ceil((handle.expiresAt - time()) / 1000)) + GRACE_MS
    const cancel = scheduler.after(leftMs, () => {
      this.#cancelById.delete(nameOf(handle.id))
      onExpired(handle)
    })
    this.#cancelById.set(nameOf(handle.id), cancel)
  }

  /** The reservation was settled here. */
  delete({ id }: ReservationHandle): void {
    const name = nameOf(id)
    this.#cancelById.get(name)?.()
    this.#cancelById.delete(name)
  }

  close(): void {
    this.#isClosed = true
    for (const cancel of this.#cancelById.values()) cancel()
    this.#cancelById.clear()
  }
}

function nameOf({ hi, lo }: Hash64): string {
  return `${hi}.${lo}`
}
