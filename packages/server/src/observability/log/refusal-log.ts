/**
 * Logs refusals: one line for each caller, rule and second, with the number of the others. A line
 * is `refused`, or `refused again` if it only reports the rest of a second.
 *
 * Calls that a rule in shadow mode or a candidate would have refused get the line `would have been
 * refused` with a `mode`. Those lines are written when their second is over, and only use lines
 * that refusals left over: a badly wrong candidate displaces no line of a refused caller.
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
  /** Logs an admitted call that a shadow rule or a candidate would have refused. */
  logShadowRefusal(decision: Decision, call: Call, entryPoint: string): void
  /** Writes what is due of the seconds that are over. */
  tick(): void
  /** Writes everything that was counted, within this second's bound. */
  flush(): void
  /** Refusals, including would-be refusals, that no line reports. */
  dropped(): number
  /** Stops the timer and flushes. */
  close(): void
}

export interface RefusalLogOptions {
  readonly log: Pick<Log, 'offer' | 'isBusy'>
  readonly clock: WallClock
  /** Whether a line names the caller by its hash or by the attributes it is counted by. */
  readonly callers: 'hash' | 'clear'
  /** Attributes that are shown only in masked form. */
  readonly secretAttributes?: readonly string[] | undefined
  /** The interval of `tick`; 0 if the caller calls it. @default 1000 */
  readonly sweepMs?: number | undefined
}

const SWEEP_MS = 1000
const METHOD_SHOWN_MAX = 32
const PATH_SHOWN_MAX = 256
const VALUE_SHOWN_MAX = 256
/** The masked form of a secret: a hash and its last characters. */
const SECRET_FORM = /^[0-9a-f]{16}\.\..{0,8}$/su

export function createRefusalLog(options: RefusalLogOptions): RefusalLog {
  return new CountedRefusalLog(options)
}

/** The caller of a rule, and the limit that refused it first. */
interface RefusedCaller {
  readonly limit: string | null
  readonly caller: string | Readonly<Record<string, string>>
}

/** What a line has besides the decision. */
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
      const { caller } = counted.subject
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
    { limitName, reason, retryAfterMs, source, staleMs, priority }: Decision,
    { attributes }: Call,
    { entryPoint, rule, caller, bound, rest }: RefusalLine,
  ): void {
    const age = staleMs === undefined ? {} : { staleMs }
    const importance = priority === undefined ? {} : { priority }
    const outcome = { reason, ...importance, retryAfterMs, source, ...age }
    const fields = { rule, limit: limitName, caller, ...outcome }
    const route = routeOf(attributes, bound?.call)
    this.#lines.write({ ...fields, way: entryPoint, ...route, rest }, 'refused', rest + 1)
  }

  private shadowFields(
    { source }: Decision,
    call: Call,
    entryPoint: string,
    { rule, mode, by, caller: hash, call: counted, limitName, retryAfterMs, reason }: ShadowRefusal,
  ): LogFields {
    const caller = this.#isClear ? this.attributesOf({ by, call: counted }) : formatHash(hash)
    const fields = { rule, mode, limit: limitName, caller, reason, retryAfterMs, source }
    return { ...fields, way: entryPoint, ...routeOf(call.attributes, counted) }
  }

  /** The attributes as the rule counted them: an address by its network, the matched route. */
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
 * Returns 53 bits of a hash: formatting all 64 as text would cost more than everything else done
 * for a would-be refusal, and there may be very many.
 */
function numberOf({ hi, lo }: Hash64): number {
  return (hi & 0x1fffff) * 2 ** 32 + (lo >>> 0)
}

/** Method, path and route of a call, cut to a bounded length. */
function routeOf(attributes: Attributes, call: NormalizedCall | undefined): LogFields {
  const route = call && readNormalized(call, 'route')
  return {
    method: show(readAttribute(attributes, 'method') ?? '', METHOD_SHOWN_MAX),
    path: showPath(readAttribute(attributes, 'path') ?? ''),
    ...(route !== undefined && { route: show(route, PATH_SHOWN_MAX) }),
  }
}

/** Leaves out the query, which may contain secrets. */
function showPath(path: string): string {
  const end = path.search(/[?#]/)
  return show(end < 0 ? path : path.slice(0, end), PATH_SHOWN_MAX)
}
