/**
 * Finds names (rules, upstreams) with too many recent failures: over a short window that requires a
 * minimum count, and over a long one for names that are called rarely.
 */
import { CountTable, RowNames } from './recent-counts.js'

export interface FailureSharesOptions {
  readonly short: {
    readonly seconds: number
    /** Fewer failures are ignored: a single late response is no problem. */
    readonly least: number
    /** More than this share of the calls must have failed. */
    readonly share: number
  }
  readonly long: {
    readonly minutes: number
    /** Failures in fewer minutes are ignored: one pause may fail many calls. */
    readonly leastMinutes: number
    /** More than this share of the calls must have failed. */
    readonly share: number
    /** Alternatively: this many failures, with a smaller share, and one of them recent. */
    readonly many?:
      | { readonly least: number; readonly share: number; readonly lastMinutes: number }
      | undefined
  }
}

interface FailureShare {
  readonly calls: number
  readonly failures: number
  /** The length of the window as text: `10 s`, `15 min`. */
  readonly over: string
}

export interface RecordedShare {
  /** Failures within the short window. */
  readonly recent: number
  /** Undefined if neither window has too many. */
  readonly tooMany: FailureShare | undefined
}

const SECONDS_PER_MINUTE = 60
const NONE: RecordedShare = { recent: 0, tooMany: undefined }

/** Takes the counts of each name since the start, once a second. */
export class FailureShares {
  readonly #options: FailureSharesOptions
  /** One lookup of a name serves all tables: there may be 20,000 rules. */
  readonly #names = new RowNames()
  readonly #short: Counts
  readonly #long: Counts
  #second = 0

  constructor(options: FailureSharesOptions) {
    this.#options = options
    this.#short = countsOver(options.short.seconds)
    this.#long = countsOver(options.long.minutes)
  }

  /** Called before the counts of a second are recorded. */
  nextSecond(): void {
    this.#second++
    advance(this.#short)
    if (this.#second % SECONDS_PER_MINUTE === 0) advance(this.#long)
  }

  /** Takes the counts of one name. */
  record(name: string, calls: number, failures: number): RecordedShare {
    const row = this.#names.rowOf(name)
    if (row === undefined) return NONE
    const { short, long } = this.#options
    const recentCalls = this.#short.calls.record(row, calls)
    const recent = this.#short.failures.record(row, failures)
    const longCalls = this.#long.calls.record(row, calls)
    const longFailures = this.#long.failures.record(row, failures)
    if (longFailures === 0 && recent === 0) return NONE
    if (recent >= short.least && recent > recentCalls * short.share) {
      return { recent, tooMany: shareOf(recentCalls, recent, `${short.seconds} s`) }
    }
    const isMany = () => this.isMany(row, longCalls, longFailures)
    const isSpread = () => this.#long.failures.grownSteps(row) >= long.leastMinutes
    if ((longFailures > longCalls * long.share || isMany()) && isSpread()) {
      return { recent, tooMany: shareOf(longCalls, longFailures, `${long.minutes} min`) }
    }
    return { recent, tooMany: undefined }
  }

  private isMany(row: number, calls: number, failures: number): boolean {
    const { many } = this.#options.long
    if (many === undefined || failures < many.least || failures <= calls * many.share) return false
    return this.#long.failures.grownSteps(row, many.lastMinutes) > 0
  }

  /** Ignores all failures so far: another alert reports their cause. */
  forget(name: string, failures: number): void {
    const row = this.#names.rowOf(name)
    if (row === undefined) return
    this.#short.failures.restart(row, failures)
    this.#long.failures.restart(row, failures)
  }
}

interface Counts {
  readonly calls: CountTable
  readonly failures: CountTable
}

function countsOver(steps: number): Counts {
  return { calls: new CountTable(steps), failures: new CountTable(steps) }
}

function advance({ calls, failures }: Counts): void {
  calls.nextStep()
  failures.nextStep()
}

function shareOf(calls: number, failures: number, over: string): FailureShare {
  return { calls, failures, over }
}
