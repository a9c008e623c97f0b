/**
 * What happens often as log lines: a flood must neither fill a disk nor go untold.
 *
 * The first event of a kind in a second is a line. The others of that second are counted, and told
 * as `rest` with the next line of that kind, or with a line of their own once the second is over.
 * Beyond so many lines a second events are only counted. So each event is exactly one of three: a
 * line, part of a `rest`, or part of `dropped`.
 */
import type { WallClock } from '../../lib/wall-clock.js'
import type { Log, LogFields } from './logger.js'

export interface CountedLinesOptions<About> {
  readonly log: Pick<Log, 'offer'>
  readonly clock: WallClock
  readonly level: 'info' | 'warn'
  /** What is told of a rest that no other line tells of. */
  readonly repeat: {
    readonly message: string
    readonly fields: (group: string, about: About) => LogFields
  }
  /** 0: no timer, somebody else calls `tick`. @default 1000 */
  readonly sweepMs?: number | undefined
}

/** What is known of the events of one kind. */
export interface EventKind<About> {
  readonly about: About
  /** Of its last line. */
  second: number
  /** Events since that line. */
  rest: number
  /** Events before the line that is to be written now. */
  due: number
}

const LINES_PER_SECOND_MAX = 1000
/** Kinds that a second or two know of. */
const TRACKED_MAX = 4096

export class CountedLines<About> {
  readonly #options: CountedLinesOptions<About>
  readonly #timer: NodeJS.Timeout | undefined
  /** By group, then by name: one text made of both would cost more than a look. */
  readonly #groups = new Map<string, Map<string, EventKind<About>>>()
  #tracked = 0
  #second = 0
  /** Lines of this second. */
  #lines = 0
  /** Lines that were not used in the second before this one. */
  #spare = 0
  #dropped = 0

  constructor(options: CountedLinesOptions<About>) {
    this.#options = options
    const { sweepMs = 1000 } = options
    if (sweepMs > 0) this.#timer = setInterval(() => this.tick(), sweepMs).unref()
  }

  /**
   * Counts an event. Undefined: that is all. `new`: its kind is not known, and whoever counts says
   * what it is with `begin`, then writes a line. Else a line is to be written that tells of `due`
   * events before it.
   */
  count(group: string, name: string): EventKind<About> | 'new' | undefined {
    this.followClock()
    const known = this.#groups.get(group)?.get(name)
    if (known === undefined) {
      if (this.hasRoom() && this.#tracked < TRACKED_MAX) return 'new'
      this.#dropped++
      return undefined
    }
    if (known.second === this.#second || !this.hasRoom()) {
      known.rest++
      return undefined
    }
    known.due = known.rest
    known.rest = 0
    known.second = this.#second
    return known
  }

  begin(group: string, name: string, about: About): EventKind<About> {
    const tracked = { about, second: this.#second, rest: 0, due: 0 }
    const names = this.#groups.get(group)
    if (names === undefined) this.#groups.set(group, new Map([[name, tracked]]))
    else names.set(name, tracked)
    this.#tracked++
    return tracked
  }

  /** One line that tells of so many events. */
  write(fields: LogFields, message: string, events: number): void {
    this.#lines++
    const { log, level } = this.#options
    if (!log.offer(fields, message, level)) this.#dropped += events
  }

  /**
   * Takes one of the lines that were not used in the second before this one: whoever writes those
   * takes nothing from the events counted here. False: there is none.
   */
  takeSpare(): boolean {
    this.followClock()
    if (this.#spare <= 0) return false
    this.#spare--
    return true
  }

  /** Tells of the seconds that are over. Called by a timer, or by whoever drives the time. */
  tick(): void {
    this.followClock()
    this.sweep(({ second }) => second !== this.#second)
  }

  /** Tells of everything that was counted, as far as lines go this second. */
  flush(): void {
    this.followClock()
    this.sweep(() => true)
    for (const names of this.#groups.values()) {
      for (const { rest } of names.values()) this.#dropped += rest
    }
    this.#groups.clear()
    this.#tracked = 0
  }

  /** Events that no line tells of. */
  dropped(): number {
    return this.#dropped
  }

  /** Ends the timer and flushes. */
  close(): void {
    clearInterval(this.#timer)
    this.flush()
  }

  private followClock(): void {
    const second = Math.floor(this.#options.clock.now() / 1000)
    if (second === this.#second) return
    // A clock that jumped, either way, has passed over the second before this one.
    const isNext = second === this.#second + 1
    this.#spare = isNext ? LINES_PER_SECOND_MAX - this.#lines : LINES_PER_SECOND_MAX
    this.#second = second
    this.#lines = 0
  }

  private hasRoom(): boolean {
    return this.#lines < LINES_PER_SECOND_MAX
  }

  /** Forgets kinds, those with a rest after a line; where there is no room they stay. */
  private sweep(isOver: (tracked: EventKind<About>) => boolean): void {
    const { message, fields } = this.#options.repeat
    for (const [group, names] of this.#groups) {
      for (const [name, tracked] of names) {
        if (!isOver(tracked)) continue
        const { about, rest } = tracked
        if (rest > 0) {
          if (!this.hasRoom()) continue
          this.write({ ...fields(group, about), rest }, message, rest)
        }
        names.delete(name)
        this.#tracked--
      }
      if (names.size === 0) this.#groups.delete(group)
    }
  }
}
