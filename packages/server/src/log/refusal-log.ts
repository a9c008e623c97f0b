/**
 * Refusals as log lines: a flood of them must neither fill a disk nor go untold.
 *
 * The first refusal of a caller by a rule in a second is a line. The others of that second are
 * counted, and told as `rest` with the caller's next line, or with a line of their own once the
 * second is over. Beyond so many lines a second refusals are only counted. So each refusal is
 * exactly one of three: a line `refused`, part of a `rest`, or part of `dropped`.
 */
import { type Call, type Decision, readAttribute, show } from '@sluice/core'
import type { WallClock } from '../clock.js'
import type { Log } from './logger.js'

export interface RefusalLog {
  refused(decision: Decision, call: Call, way: string): void
  /** Tells of the seconds that are over. Called by a timer, or by whoever drives the time. */
  tick(): void
  /** Tells of everything that was counted, as far as lines go this second. */
  flush(): void
  /** Refusals that no line tells of. */
  dropped(): number
  /** Ends the timer and flushes. */
  close(): void
}

export interface RefusalLogOptions {
  readonly log: Pick<Log, 'offer'>
  readonly clock: WallClock
  /** Whether a line names the caller by its hash or by the attributes it is counted by. */
  readonly callers: 'hash' | 'clear'
  /** Attributes that are never shown unless as the hash that the door made of them. */
  readonly secretAttributes?: readonly string[] | undefined
  /** 0: no timer, somebody else calls `tick`. @default 1000 */
  readonly sweepMs?: number | undefined
}

const LINES_PER_SECOND_MAX = 1000
/** Callers, by rule, that a second or two know of. */
const TRACKED_MAX = 4096
const METHOD_SHOWN_MAX = 32
const PATH_SHOWN_MAX = 256
const VALUE_SHOWN_MAX = 256
/** A hash and the last characters of a secret, as the door writes it. */
const SECRET_FORM = /^[0-9a-f]{16}\.\..{0,8}$/su

export function createRefusalLog(options: RefusalLogOptions): RefusalLog {
  return new CountedRefusalLog(options)
}

/** What is known of one caller of one rule. */
interface Tracked {
  /** Of its last line. */
  second: number
  /** Refusals since that line. */
  rest: number
  readonly limit: string | null
  readonly caller: string | Readonly<Record<string, string>>
}

class CountedRefusalLog implements RefusalLog {
  readonly #log: Pick<Log, 'offer'>
  readonly #clock: WallClock
  readonly #isClear: boolean
  readonly #secret: ReadonlySet<string>
  readonly #timer: NodeJS.Timeout | undefined
  /** By rule, then by the hash of the caller: one text made of both would cost more than a look. */
  readonly #rules = new Map<string, Map<string, Tracked>>()
  #tracked = 0
  #second = 0
  /** Lines of this second. */
  #lines = 0
  #dropped = 0

  constructor({ log, clock, callers, secretAttributes, sweepMs = 1000 }: RefusalLogOptions) {
    this.#log = log
    this.#clock = clock
    this.#isClear = callers === 'clear'
    this.#secret = new Set(secretAttributes)
    if (sweepMs > 0) this.#timer = setInterval(() => this.tick(), sweepMs).unref()
  }

  refused(decision: Decision, call: Call, way: string): void {
    this.followClock()
    const bound = decision.bound()
    const rule = bound?.rule ?? decision.rule ?? ''
    const hash = bound?.caller ?? ''
    const known = this.#rules.get(rule)?.get(hash)
    if (known !== undefined) {
      if (known.second === this.#second || !this.hasRoom()) {
        known.rest++
        return
      }
      const { rest } = known
      known.second = this.#second
      known.rest = 0
      this.tell(decision, call, { way, rule, caller: known.caller, rest })
    } else if (!this.hasRoom() || this.#tracked >= TRACKED_MAX) this.#dropped++
    else {
      const caller = this.#isClear ? this.attributesOf(bound?.by ?? [], call) : hash
      this.track(rule, hash, { second: this.#second, rest: 0, limit: decision.limitName, caller })
      this.tell(decision, call, { way, rule, caller, rest: 0 })
    }
  }

  tick(): void {
    this.followClock()
    this.sweep(({ second }) => second !== this.#second)
  }

  flush(): void {
    this.followClock()
    this.sweep(() => true)
    for (const callers of this.#rules.values()) {
      for (const { rest } of callers.values()) this.#dropped += rest
    }
    this.#rules.clear()
    this.#tracked = 0
  }

  dropped(): number {
    return this.#dropped
  }

  close(): void {
    clearInterval(this.#timer)
    this.flush()
  }

  private followClock(): void {
    const second = Math.floor(this.#clock.now() / 1000)
    if (second === this.#second) return
    this.#second = second
    this.#lines = 0
  }

  private hasRoom(): boolean {
    return this.#lines < LINES_PER_SECOND_MAX
  }

  /** Forgets callers, those with a rest after a line; where there is no room they stay. */
  private sweep(isOver: (tracked: Tracked) => boolean): void {
    for (const [rule, callers] of this.#rules) {
      for (const [hash, tracked] of callers) {
        if (!isOver(tracked)) continue
        if (tracked.rest > 0) {
          if (!this.hasRoom()) continue
          const { limit, caller, rest } = tracked
          this.write({ rule, limit, caller, rest }, 'refused again', rest)
        }
        callers.delete(hash)
        this.#tracked--
      }
      if (callers.size === 0) this.#rules.delete(rule)
    }
  }

  private track(rule: string, hash: string, tracked: Tracked): void {
    const callers = this.#rules.get(rule)
    if (callers === undefined) this.#rules.set(rule, new Map([[hash, tracked]]))
    else callers.set(hash, tracked)
    this.#tracked++
  }

  private tell(
    { limitName, reason, retryAfterMs }: Decision,
    { attributes }: Call,
    { way, rule, caller, rest }: Pick<Tracked, 'caller' | 'rest'> & Record<'way' | 'rule', string>,
  ): void {
    const method = show(readAttribute(attributes, 'method') ?? '', METHOD_SHOWN_MAX)
    const path = showPath(readAttribute(attributes, 'path') ?? '')
    const about = { rule, limit: limitName, caller, reason, retryAfterMs }
    this.write({ ...about, way, method, path, rest }, 'refused', rest + 1)
  }

  /** One line that tells of so many refusals. */
  private write(fields: Parameters<Log['offer']>[0], message: string, refusals: number): void {
    this.#lines++
    if (!this.#log.offer(fields, message)) this.#dropped += refusals
  }

  private attributesOf(by: readonly string[], { attributes }: Call): Record<string, string> {
    const shown: Record<string, string> = {}
    for (const name of by) {
      const value = readAttribute(attributes, name) ?? ''
      const isHidden = this.#secret.has(name) && !SECRET_FORM.test(value)
      shown[name] = isHidden ? '(secret)' : show(value, VALUE_SHOWN_MAX)
    }
    return shown
  }
}

/** Without its query, where secrets stand. */
function showPath(path: string): string {
  const end = path.search(/[?#]/)
  return show(end < 0 ? path : path.slice(0, end), PATH_SHOWN_MAX)
}
