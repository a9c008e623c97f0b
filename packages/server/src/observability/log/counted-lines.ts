/**
 * Logs frequent events without flooding the log and without losing their number.
 *
 * The first event of a kind in a second is a line. The others of that second are counted and
 * reported as `rest` with the next line of that kind, or with a separate line once the second is
 * over. Beyond a bound of lines per second events are only counted. So each event is exactly one
 * of three: a line, part of a `rest`, or part of `dropped`.
 */
import type { WallClock } from '../../lib/wall-clock.js'
import type { Log, LogFields } from './logger.js'

export interface CountedLinesOptions<Subject> {
  readonly log: Pick<Log, 'offer'>
  readonly clock: WallClock
  readonly level: 'info' | 'warn'
  /** The separate line for a rest that no other line reports. */
  readonly repeat: {
    readonly message: string
    readonly fields: (group: string, subject: Subject) => LogFields
  }
  /** The interval of `tick`; 0 if the caller calls it. @default 1000 */
  readonly sweepMs?: number | undefined
}

/** The events of one kind. */
export interface EventKind<Subject> {
  readonly subject: Subject
  /** The second of its last line. */
  second: number
  /** Events since that line. */
  rest: number
  /** Events that the line to be written now reports as its rest. */
  due: number
}

const LINES_PER_SECOND_MAX = 1000
/** Kinds tracked at a time; each is forgotten after a second or two. */
const TRACKED_MAX = 4096

export class CountedLines<Subject> {
  readonly #options: CountedLinesOptions<Subject>
  readonly #timer: NodeJS.Timeout | undefined
  /** By group, then by name: concatenating both would cost more than a second lookup. */
  readonly #groups = new Map<string, Map<string, EventKind<Subject>>>()
  #tracked = 0
  #second = 0
  /** Lines written in this second. */
  #lines = 0
  /** Lines of the previous second that were not used. */
  #spare = 0
  #dropped = 0

  constructor(options: CountedLinesOptions<Subject>) {
    this.#options = options
    const { sweepMs = 1000 } = options
    if (sweepMs > 0) this.#timer = setInterval(() => this.tick(), sweepMs).unref()
  }

  /**
   * Counts an event. Returns undefined if no line is due; `new` if the kind is unknown, and the
   * caller must `begin` it and write a line; otherwise the kind, and the caller must write a line
   * that reports `due` earlier events.
   */
  count(group: string, name: string): EventKind<Subject> | 'new' | undefined {
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

  begin(group: string, name: string, subject: Subject): EventKind<Subject> {
    const tracked = { subject, second: this.#second, rest: 0, due: 0 }
    const names = this.#groups.get(group)
    if (names === undefined) this.#groups.set(group, new Map([[name, tracked]]))
    else names.set(name, tracked)
    this.#tracked++
    return tracked
  }

  /** Writes one line that reports this many events. */
  write(fields: LogFields, message: string, events: number): void {
    this.#lines++
    const { log, level } = this.#options
    if (!log.offer(fields, message, level)) this.#dropped += events
  }

  /**
   * Takes one of the unused lines of the previous second, so that the caller's line displaces none
   * of the events counted here. Returns false if there is none.
   */
  takeSpare(): boolean {
    this.followClock()
    if (this.#spare <= 0) return false
    this.#spare--
    return true
  }

  /** Writes the rests of seconds that are over. */
  tick(): void {
    this.followClock()
    this.sweep(({ second }) => second !== this.#second)
  }

  /** Writes all rests within this second's bound and drops the remaining ones. */
  flush(): void {
    this.followClock()
    this.sweep(() => true)
    for (const names of this.#groups.values()) {
      for (const { rest } of names.values()) this.#dropped += rest
    }
    this.#groups.clear()
    this.#tracked = 0
  }

  /** Events that no line reports. */
  dropped(): number {
    return this.#dropped
  }

  /** Stops the timer and flushes. */
  close(): void {
    clearInterval(this.#timer)
    this.flush()
  }

  private followClock(): void {
    const second = Math.floor(this.#options.clock.now() / 1000)
    if (second === this.#second) return
    // After a clock jump nothing was logged in the previous second.
    const isNext = second === this.#second + 1
    this.#spare = isNext ? LINES_PER_SECOND_MAX - this.#lines : LINES_PER_SECOND_MAX
    this.#second = second
    this.#lines = 0
  }

  private hasRoom(): boolean {
    return this.#lines < LINES_PER_SECOND_MAX
  }

  /** Forgets kinds. Those with a rest get a line first, or stay if the second has no line left. */
  private sweep(isOver: (tracked: EventKind<Subject>) => boolean): void {
    const { message, fields } = this.#options.repeat
    for (const [group, names] of this.#groups) {
      for (const [name, tracked] of names) {
        if (!isOver(tracked)) continue
        const { subject, rest } = tracked
        if (rest > 0) {
          if (!this.hasRoom()) continue
          this.write({ ...fields(group, subject), rest }, message, rest)
        }
        names.delete(name)
        this.#tracked--
      }
      if (names.size === 0) this.#groups.delete(group)
    }
  }
}
