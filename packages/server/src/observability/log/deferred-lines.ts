/**
 * Log lines that wait for others. An event is counted when it happens, and its line is written once
 * its second is over, with what the lines that do not wait left of that second, and while no more
 * than half of what the log can hold waits for its reader. So however many such events there are,
 * they take no line from the others.
 *
 * All events of a kind and second are one line, `rest` of them counted. Each event is exactly one
 * of three: a line, part of a `rest`, or part of `dropped`.
 */
import type { WallClock } from '../../lib/wall-clock.js'
import type { Log, LogFields } from './logger.js'

export interface DeferredLinesOptions {
  readonly log: Pick<Log, 'offer' | 'isBusy'>
  readonly clock: WallClock
  readonly message: string
  /** Takes one of the lines that are left of the last second; false: there is none. */
  readonly takeSpare: () => boolean
}

interface DeferredLine {
  /** Of the first event. */
  readonly fields: LogFields
  readonly second: number
  rest: number
}

/** Kinds that wait at most: no second has more lines. */
const WAITING_MAX = 1000

export class DeferredLines {
  readonly #options: DeferredLinesOptions
  /** By group, then by a number that stands for who it is about. */
  readonly #groups = new Map<string, Map<number, DeferredLine>>()
  #waiting = 0
  #dropped = 0

  constructor(options: DeferredLinesOptions) {
    this.#options = options
  }

  /** Counts an event. True: its kind is new, and its line is to be given to `begin`. */
  count(group: string, about: number): boolean {
    const known = this.#groups.get(group)?.get(about)
    if (known !== undefined) known.rest++
    else if (this.#waiting < WAITING_MAX) return true
    else this.#dropped++
    return false
  }

  begin(group: string, about: number, fields: LogFields): void {
    const deferred = { fields, second: this.second(), rest: 0 }
    const names = this.#groups.get(group)
    if (names === undefined) this.#groups.set(group, new Map([[about, deferred]]))
    else names.set(about, deferred)
    this.#waiting++
  }

  /** Writes what waits of the seconds that are over; what finds no line waits on. */
  tick(): void {
    const now = this.second()
    this.write(({ second }) => second !== now)
  }

  /** Writes whatever waits, as far as lines go, and drops the rest. */
  flush(): void {
    this.write(() => true)
    for (const names of this.#groups.values()) {
      for (const { rest } of names.values()) this.#dropped += rest + 1
    }
    this.#groups.clear()
    this.#waiting = 0
  }

  /** Events that no line tells of. */
  dropped(): number {
    return this.#dropped
  }

  private write(isDue: (deferred: DeferredLine) => boolean): void {
    const { log, message, takeSpare } = this.#options
    for (const [group, names] of this.#groups) {
      for (const [about, deferred] of names) {
        if (!isDue(deferred)) continue
        if (log.isBusy() || !takeSpare()) return
        const { fields, rest } = deferred
        if (!log.offer({ ...fields, rest }, message)) this.#dropped += rest + 1
        names.delete(about)
        this.#waiting--
      }
      if (names.size === 0) this.#groups.delete(group)
    }
  }

  private second(): number {
    return Math.floor(this.#options.clock.now() / 1000)
  }
}
