/**
 * Every counter against floods, in one place. There are two kinds.
 *
 * Frames that cost us work, and that no client sends in numbers without calls, end the connection
 * when there are too many: PING, SETTINGS, PRIORITY, unknown types, empty DATA, window updates that
 * answer no DATA, and frames that are wrong for their stream.
 *
 * Streams that a client gives up never end it. A proxy with a short timeout gives up every call
 * while we are slow, and would lose its connection when it needs it most. Reading pauses instead,
 * as long as this many would take at the permitted rate, so that they cost a bounded share of CPU.
 */
import { ConnectionError } from './errors.js'
import { ErrorCode } from './frames.js'

/** A client sends some tens of control frames when it connects. */
const CONTROL_MAX = 2_000

/** Keepalive and bandwidth probes take less than one a second; this is 0.1 % of a core. */
const CONTROL_PER_SECOND = 100

/** A client that probes the bandwidth sends a PING for some of its calls, and settings rarely. */
const CONTROL_PER_CALL = 2

/** A DATA frame may be answered with an update of the stream's and of the connection's window. */
const UPDATES_PER_DATA = 2

/** A frame of unknown meaning costs as little as it can. Settings may touch every open stream. */
export const ControlCost = { frame: 1, settings: 10, streamFault: 20 } as const

/** A second of all calls of one busy connection, given up together. */
const ABANDONED_MAX = 50_000

/** At about a microsecond each, 5 % of a core. */
const ABANDONED_PER_SECOND = 50_000

/** Calls that were answered show a client at work: each allows one that is given up. */
const ABANDONED_PER_CALL = 1

export class FloodBudget {
  #control = CONTROL_MAX
  #abandoned = ABANDONED_MAX
  #updates = 0
  #refilledMs: number

  constructor(nowMs: number) {
    this.#refilledMs = nowMs
  }

  /** Time passes: called once for each chunk that is read. */
  refill(nowMs: number): void {
    const seconds = Math.max(0, nowMs - this.#refilledMs) / 1_000
    this.#refilledMs = nowMs
    this.#control = Math.min(CONTROL_MAX, this.#control + seconds * CONTROL_PER_SECOND)
    this.#abandoned = Math.min(ABANDONED_MAX, this.#abandoned + seconds * ABANDONED_PER_SECOND)
  }

  onCallAnswered(): void {
    if (this.#control < CONTROL_MAX) this.#control += CONTROL_PER_CALL
    if (this.#abandoned < ABANDONED_MAX) this.#abandoned += ABANDONED_PER_CALL
  }

  onDataSent(): void {
    this.#updates = Math.min(CONTROL_MAX, this.#updates + UPDATES_PER_DATA)
  }

  onWindowUpdate(): void {
    if (this.#updates > 0) this.#updates -= 1
    else this.onControlFrame(ControlCost.frame)
  }

  /** Throws when there were too many. */
  onControlFrame(cost: number): void {
    this.#control -= cost
    if (this.#control >= 0) return
    throw new ConnectionError(ErrorCode.enhanceYourCalm, 'too many control frames for its calls')
  }

  /** A stream was reset by the client, or refused because it has too many. */
  onAbandoned(): void {
    this.#abandoned -= 1
  }

  /** How long reading should pause for the streams that were given up, 0 if not at all. */
  get pauseMs(): number {
    return this.#abandoned >= 0 ? 0 : (-this.#abandoned / ABANDONED_PER_SECOND) * 1_000
  }
}
