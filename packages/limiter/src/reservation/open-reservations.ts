/**
 * The reservations that this node made and must end itself when they expire: they hold places, or a
 * rule gives back what expires. Those of a killed node stay as they are.
 */
import type { Hash64, ReservationHandle } from '@sluice/core'
import type { Scheduler } from '../periodic.js'

/**
 * More that are only given back are not remembered, and stay charged. About 50 MB. Those that hold
 * places always are: their limits bound them.
 */
const OPEN_MAX = 100_000
/** A settle that is sent in the last moment must win over the expiry, wherever it comes from. */
const GRACE_MS = 1000

export interface OpenReservationsDeps {
  /** The store's time, in microseconds. */
  readonly time: () => number
  readonly scheduler: Scheduler
  readonly onExpired: (handle: ReservationHandle) => void
}

export interface OpenOptions {
  /** Whether a rule gives back what expires. */
  readonly isRefunded: boolean
  /** What this node does when the reservation ends; undefined: nothing. */
  readonly onEnd: (() => void) | undefined
}

interface OpenReservation {
  readonly extensions: number
  readonly cancel: () => void
  readonly onEnd: (() => void) | undefined
}

export class OpenReservations {
  readonly #deps: OpenReservationsDeps
  readonly #byId = new Map<string, OpenReservation>()
  #isClosed = false

  constructor(deps: OpenReservationsDeps) {
    this.#deps = deps
  }

  /**
   * An extended reservation replaces the one before, and keeps what that does at its end; a
   * repeated one does not replace its extension.
   */
  add(handle: ReservationHandle, { isRefunded, onEnd }: OpenOptions): void {
    if (!isRefunded && onEnd === undefined && this.#byId.size === 0) return
    const name = nameOf(handle.id)
    const before = this.#byId.get(name)
    if (before !== undefined && before.extensions > handle.extensions) {
      onEnd?.()
      return
    }
    before?.cancel()
    this.#byId.delete(name)
    const isKept = onEnd !== undefined || (isRefunded && this.#byId.size < OPEN_MAX)
    if (!isKept || this.#isClosed) return
    const { time, scheduler, onExpired } = this.#deps
    const leftMs = Math.max(0, Math.ceil((handle.expiresAt - time()) / 1000)) + GRACE_MS
    const cancel = scheduler.after(leftMs, () => {
      onExpired(handle)
      this.end(handle)
    })
    const both = () => {
      before?.onEnd?.()
      onEnd?.()
    }
    this.#byId.set(name, { extensions: handle.extensions, cancel, onEnd: both })
  }

  /** The reservation has ended: it was settled, or has expired. */
  end({ id }: ReservationHandle): void {
    if (this.#byId.size === 0) return
    const name = nameOf(id)
    const open = this.#byId.get(name)
    if (open === undefined) return
    this.#byId.delete(name)
    open.cancel()
    open.onEnd?.()
  }

  close(): void {
    this.#isClosed = true
    for (const { cancel } of this.#byId.values()) cancel()
    this.#byId.clear()
  }
}

function nameOf({ hi, lo }: Hash64): string {
  return `${hi}.${lo}`
}
