/**
 * Refusals as log lines: for each caller, rule and second one line, and the others of that second
 * counted. A line is `refused`, or `refused again` where only the rest of a second is told.
 *
 * What rules in shadow and candidates would have refused is a line too, `would have been refused`
 * with its `mode`. Those lines come when their second is over, and only with what refusals left of
 * its lines: a candidate that is wildly wrong takes no line from a caller that was refused.
 */
import {
  type Attributes,
  type BindingCaller,
  type Call,
  candidateId,
  type Decision,
  formatHash,
  type Hash64,
  type NormalizedCall,
  readAttribute,
  readNormalized,
  type ShadowRefusal,
  show,
} from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import { CountedLines } from './counted-lines.js'
import { DeferredLines } from './deferred-lines.js'
import type { Log, LogFields } from './logger.js'

export interface RefusalLog {
  logRefusal(decision: Decision, call: Call, entryPoint: string): void
  /** A call that passed, and that something in shadow would have refused. */
  logShadowRefusal(decision: Decision, call: Call, entryPoint: string): void
  /** Tells of the seconds that are over. Called by a timer, or by whoever drives the time. */
  tick(): void
  /** Tells of everything that was counted, as far as lines go this second. */
  flush(): void
  /** Refusals, would-be ones among them, that no line tells of. */
  dropped(): number
  /** Ends the timer and flushes. */
  close(): void
}

export interface RefusalLogOptions {
  readonly log: Pick<Log, 'offer' | 'isBusy'>
  readonly clock: WallClock
  /** Whether a line names the caller by its hash or by the attributes it is counted by. */
  readonly callers: 'hash' | 'clear'
  /** Attributes that are never shown unless as the hash that the door made of them. */
  readonly secretAttributes?: readonly string[] | undefined
  /** 0: no timer, somebody else calls `tick`. @default 1000 */
  readonly sweepMs?: number | undefined
}

const SWEEP_MS = 1000
const METHOD_SHOWN_MAX = 32
const PATH_SHOWN_MAX = 256
const VALUE_SHOWN_MAX = 256
/** A hash and the last characters of a secret, as the door writes it. */
const SECRET_FORM = /^[0-9a-f]{16}\.\..{0,8}$/su

export function createRefusalLog(options: RefusalLogOptions): RefusalLog {
  return new CountedRefusalLog(options)
}

/** The caller of a rule, and the limit that refused it first. */
interface RefusedCaller {
  readonly limit: string | null
  readonly caller: string | Readonly<Record<string, string>>
}

/** What a line says beside the decision. */
interface RefusalLine extends Pick<RefusedCaller, 'caller'> {
  readonly entryPoint: string
  readonly rule: string
  readonly bound: BindingCaller | undefined
  readonly rest: number
}

class CountedRefusalLog implements RefusalLog {
  readonly #lines: CountedLines<RefusedCaller>
  readonly #shadowLines: DeferredLines
  readonly #timer: NodeJS.Timeout | undefined
  readonly #isClear: boolean
  readonly #secret: ReadonlySet<string>

  constructor(options: RefusalLogOptions) {
    const { log, clock, callers, secretAttributes, sweepMs = SWEEP_MS } = options
    this.#isClear = callers === 'clear'
    this.#secret = new Set(secretAttributes)
    this.#lines = new CountedLines({
      log,
      clock,
      sweepMs: 0,
      level: 'info',
      repeat: {
        message: 'refused again',
        fields: (rule, { limit, caller }) => ({ rule, limit, caller }),
      },
    })
    const message = 'would have been refused'
    const takeSpare = () => this.#lines.takeSpare()
    this.#shadowLines = new DeferredLines({ log, clock, message, takeSpare })
    if (sweepMs > 0) this.#timer = setInterval(() => this.tick(), sweepMs).unref()
  }

  logRefusal(decision: Decision, call: Call, entryPoint: string): void {
    const bound = decision.bound()
    const rule = bound?.rule ?? decision.rule ?? ''
    const hash = bound?.caller ?? ''
    const counted = this.#lines.count(rule, hash)
    if (counted === undefined) return
    if (counted !== 'new') {
      const { caller } = counted.about
      this.writeLine(decision, call, { entryPoint, rule, caller, bound, rest: counted.due })
      return
    }
    const caller = this.#isClear ? this.attributesOf(bound) : hash
    this.#lines.begin(rule, hash, { limit: decision.limitName, caller })
    this.writeLine(decision, call, { entryPoint, rule, caller, bound, rest: 0 })
  }

  logShadowRefusal(decision: Decision, call: Call, entryPoint: string): void {
    for (const refusal of decision.shadowRefusals()) {
      const { rule, mode, caller } = refusal
      const group = mode === 'candidate' ? candidateId(rule) : rule
      const number = numberOf(caller)
      if (!this.#shadowLines.count(group, number)) continue
      this.#shadowLines.begin(group, number, this.shadowFields(decision, call, entryPoint, refusal))
    }
  }

  tick(): void {
    this.#lines.tick()
    this.#shadowLines.tick()
  }

  flush(): void {
    this.#lines.flush()
    this.#shadowLines.flush()
  }

  dropped(): number {
    return this.#lines.dropped() + this.#shadowLines.dropped()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#lines.close()
    this.#shadowLines.flush()
  }

  private writeLine(
    { limitName, reason, retryAfterMs, source, staleMs }: Decision,
    { attributes }: Call,
    { entryPoint, rule, caller, bound, rest }: RefusalLine,
  ): void {
    const age = staleMs === undefined ? {} : { staleMs }
    const fields = { rule, limit: limitName, caller, reason, retryAfterMs, source, ...age }
    const route = routeOf(attributes, bound?.call)
    this.#lines.write({ ...fields, way: entryPoint, ...route, rest }, 'refused', rest + 1)
  }

  private shadowFields(
    { source }: Decision,
    call: Call,
    entryPoint: string,
    { rule, mode, by, caller: hash, call: counted, limitName, retryAfterMs }: ShadowRefusal,
  ): LogFields {
    const caller = this.#isClear ? this.attributesOf({ by, call: counted }) : formatHash(hash)
    const reason = retryAfterMs === null ? 'cost_exceeds_limit' : 'over'
    const fields = { rule, mode, limit: limitName, caller, reason, retryAfterMs, source }
    return { ...fields, way: entryPoint, ...routeOf(call.attributes, counted) }
  }

  /** As the rule counted them: an address by its network, the route that was found. */
  private attributesOf(
    counted: Pick<BindingCaller, 'by' | 'call'> | undefined,
  ): Record<string, string> {
    const shown: Record<string, string> = {}
    if (counted === undefined) return shown
    for (const name of counted.by) {
      const value = readNormalized(counted.call, name) ?? ''
      const isHidden = this.#secret.has(name) && !SECRET_FORM.test(value)
      shown[name] = isHidden ? '(secret)' : show(value, VALUE_SHOWN_MAX)
    }
    return shown
  }
}

/**
 * 53 bits of a hash: a text of all 64 costs more than all else that is done with a call that a
 * candidate would have refused, and there may be very many.
 */
function numberOf({ hi, lo }: Hash64): number {
  return (hi & 0x1fffff) * 2 ** 32 + (lo >>> 0)
}

/** Which call it was, without anything that a caller could flood the log with. */
function routeOf(attributes: Attributes, call: NormalizedCall | undefined): LogFields {
  const route = call && readNormalized(call, 'route')
  return {
    method: show(readAttribute(attributes, 'method') ?? '', METHOD_SHOWN_MAX),
    path: showPath(readAttribute(attributes, 'path') ?? ''),
    ...(route !== undefined && { route: show(route, PATH_SHOWN_MAX) }),
  }
}

/** Without its query, where secrets stand. */
function showPath(path: string): string {
  const end = path.search(/[?#]/)
  return show(end < 0 ? path : path.slice(0, end), PATH_SHOWN_MAX)
}
