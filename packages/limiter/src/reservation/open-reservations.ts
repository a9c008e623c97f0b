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
  /** Gives back places that the store did not grant; undefined: it holds none. */
  readonly release: (() => void) | undefined
  /**
   * Keeps places that the store granted until the returned function is called, if there are any.
   * Undefined: no rule counts places.
   */
  readonly keep: (() => (() => void) | undefined) | undefined
}

interface OpenReservation {
  readonly extensions: number
  readonly cancel: () => void
  /** What is to be done when it ends; only the second is done again for each extension. */
  readonly release: (() => void) | undefined
  readonly stopKeeping: (() => void) | undefined
}

export class OpenReservations {
  readonly #deps: OpenReservationsDeps
  readonly #byId = new Map<string, OpenReservation>()
  #isClosed = false

  constructor(deps: OpenReservationsDeps) {
    this.#deps = deps
  }

  /**
   * An extended or repeated reservation replaces the one before, and has its places; a repeated
   * one does not replace its extension. Returns whether this node holds or keeps places of it.
   */
  add(handle: ReservationHandle, { isRefunded, release, keep }: OpenOptions): boolean {
    const mayHavePlaces = release !== undefined || keep !== undefined
    if (!isRefunded && !mayHavePlaces && this.#byId.size === 0) return false
    const name = nameOf(handle.id)
    const before = this.#byId.get(name)
    if (before !== undefined && before.extensions > handle.extensions) {
      release?.()
      return hasPlaces(before)
    }
    const places = { release: both(before?.release, release), stopKeeping: keep?.() }
    before?.stopKeeping?.()
    before?.cancel()
    this.#byId.delete(name)
    const isKept = hasPlaces(places) || (isRefunded && this.#byId.size < OPEN_MAX)
    if (!isKept || this.#isClosed) return hasPlaces(places)
    const { time, scheduler, onExpired } = this.#deps
    const leftMs = Math.max(0, Math.ceil((handle.expiresAt - time()) / 1000)) + GRACE_MS
    const cancel = scheduler.after(leftMs, () => {
      onExpired(handle)
      this.end(handle)
    })
    this.#byId.set(name, { ...places, extensions: handle.extensions, cancel })
    return hasPlaces(places)
  }

  /** Its call has ended, whether or not the store can say so already. */
  release({ id }: ReservationHandle): void {
    if (this.#byId.size > 0) this.#byId.get(nameOf(id))?.release?.()
  }

  /** The reservation has ended: it was settled, or has expired. */
  end({ id }: ReservationHandle): void {
    if (this.#byId.size === 0) return
    const name = nameOf(id)
    const open = this.#byId.get(name)
    if (open === undefined) return
    this.#byId.delete(name)
    open.cancel()
    open.release?.()
    open.stopKeeping?.()
  }

  close(): void {
    this.#isClosed = true
    for (const { cancel } of this.#byId.values()) cancel()
    this.#byId.clear()
  }
}

function hasPlaces({ release, stopKeeping }: Pick<OpenReservation, 'release' | 'stopKeeping'>) {
  return release !== undefined || stopKeeping !== undefined
}

/** A reserve that is sent again, and admitted by posture then, has places of its own. */
function both(first: (() => void) | undefined, second: (() => void) | undefined) {
  if (first === undefined || second === undefined) return first ?? second
  return () => {
    first()
    second()
  }
}

function nameOf({ hi, lo }: Hash64): string {
  return `${hi}.${lo}`
}
