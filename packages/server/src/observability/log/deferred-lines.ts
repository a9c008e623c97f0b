/**
 * Log lines of low priority. An event is counted when it happens; its line is written once its
 * second is over, if regular lines left room in that second and the log buffer is at most half
 * full. So these events never displace regular lines.
 *
 * All events of a kind and second are one line, whose `rest` counts the others. Each event is
 * exactly one of three: a line, part of a `rest`, or part of `dropped`.
 */
import type { WallClock } from '../../lib/wall-clock.js'
import type { Log, LogFields } from './logger.js'

export interface DeferredLinesOptions {
  readonly log: Pick<Log, 'offer' | 'isBusy'>
  readonly clock: WallClock
  readonly message: string
  /** Takes one of the unused lines of the last second; false if there is none. */
  readonly takeSpare: () => boolean
}

interface DeferredLine {
  /** Fields of the first event. */
  readonly fields: LogFields
  readonly second: number
  rest: number
}

/** Pending kinds at most: no second has more lines. */
const WAITING_MAX = 1000

export class DeferredLines {
  readonly #options: DeferredLinesOptions
  /** By group, then by the number that identifies the subject. */
  readonly #groups = new Map<string, Map<number, DeferredLine>>()
  #waiting = 0
  #dropped = 0

  constructor(options: DeferredLinesOptions) {
    this.#options = options
  }

  /** Counts an event. Returns true if its kind is new, and the caller must `begin` it. */
  count(group: string, subject: number): boolean {
    const known = this.#groups.get(group)?.get(subject)
    if (known !== undefined) known.rest++
    else if (this.#waiting < WAITING_MAX) return true
    else this.#dropped++
    return false
  }

  begin(group: string, subject: number, fields: LogFields): void {
    const deferred = { fields, second: this.second(), rest: 0 }
    const names = this.#groups.get(group)
    if (names === undefined) this.#groups.set(group, new Map([[subject, deferred]]))
    else names.set(subject, deferred)
    this.#waiting++
  }

  /** Writes pending lines of seconds that are over; those without a free line stay pending. */
  tick(): void {
    const now = this.second()
    this.write(({ second }) => second !== now)
  }

  /** Writes pending lines while lines are free, and drops the rest. */
  flush(): void {
    this.write(() => true)
    for (const names of this.#groups.values()) {
      for (const { rest } of names.values()) this.#dropped += rest + 1
    }
    this.#groups.clear()
    this.#waiting = 0
  }

  /** Events that no line reports. */
  dropped(): number {
    return this.#dropped
  }

  private write(isDue: (deferred: DeferredLine) => boolean): void {
    const { log, message, takeSpare } = this.#options
    for (const [group, names] of this.#groups) {
      for (const [subject, deferred] of names) {
        if (!isDue(deferred)) continue
        if (log.isBusy() || !takeSpare()) return
        const { fields, rest } = deferred
        if (!log.offer({ ...fields, rest }, message)) this.#dropped += rest + 1
        names.delete(subject)
        this.#waiting--
      }
      if (names.size === 0) this.#groups.delete(group)
    }
  }

  private second(): number {
    return Math.floor(this.#options.clock.now() / 1000)
  }
}
