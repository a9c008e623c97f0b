/**
 * What is known of one bucket of one proxy: the calls that were drawn for it and not reported yet,
 * what it was assigned, and how fast it spends. Time is an argument; nothing is sent from here.
 *
 * A proxy may spend what it holds until a report says so, so whatever was drawn stays charged until
 * a report covers it, or proves that the proxy does not hold it any more.
 */
import type { Draw } from './quota-draw.js'
import type { BucketId, Strategy } from './quota-messages.js'

/** How often buckets are looked at between reports. */
export const TICK_MS = 500
/** How long an assignment lasts unless it is renewed: Envoy reads whole seconds. */
export const TTL_SECONDS = 5
/** An assignment that ends sooner is renewed: it outlives some ticks that come late. */
const RENEW_MS = 3000
/**
 * A lease is for the calls until the next report, and a little longer: what is left of it when it
 * is replaced is lost to all until that report. The bounds are for intervals that are unknown or
 * long.
 */
const LEASE_INTERVALS = 1.25
const LEASE_MS_MIN = 2000
const LEASE_MS_MAX = 10_000
/** A new lease is drawn when the old one will not last for this time. */
const LOW_MS = 750
/**
 * How long after an assignment was sent a report that arrives was made under it. Far longer than
 * messages are on their way; if one is not, what it reports is charged beyond the leases.
 */
const APPLIED_MS = 1000
/** How long a store that has nothing left, or no answer, is not asked again. */
const RETRY_MS_MIN = TICK_MS
const RETRY_MS_MAX = 2000
/** A bucket whose proxy reports no call for this time is abandoned. */
const IDLE_MS = 15_000
/** Without a report for this time, or for three intervals, nothing is drawn for the last rate. */
const QUIET_MS_MIN = 10_000
/** Without a report for this time the bucket is abandoned. */
const SILENT_MS = 10 * 60_000
/** A report that comes sooner after the last one says too little about the rate. */
const ELAPSED_MS_MIN = 250

/** The counters of one bucket that others share: what one lease may have of them. */
export interface LeaseBounds {
  /** Held by a proxy that spends nothing. */
  readonly least: number
  readonly most: number
  /** The part of a proxy in what the limits admit for ever, in calls per millisecond. */
  readonly perMs: number
}

/** What became of the calls that a proxy reported. */
export interface Reported {
  /** Calls that had been drawn for it. */
  readonly spent: number
  /** Calls beyond what had been drawn, which are still to be charged. */
  readonly beyond: number
}

interface Active {
  readonly strategy: Strategy
  readonly sentMs: number
  expiresMs: number
  /** When the window ends from which its units were drawn. */
  readonly endsMs: number
}

export class QuotaBucket {
  readonly id: BucketId
  /** Drawn and possibly unspent, the oldest first. */
  #draws: Draw[] = []
  /** Drawn, and not assigned yet: less than the proxy probably holds. */
  #banked: Draw[] = []
  /** Not held by the proxy any more, and not given back yet. */
  #returnable: Draw[] = []
  #active: Active | undefined
  /** Calls that the proxy probably still may admit, and when. */
  #left = 0
  #leftMs = 0
  /** Calls per millisecond, admitted and refused; undefined before the second report. */
  #rate: number | undefined
  /** What is assumed of a rate that is not known yet: that the proxy uses its part. */
  #assumedRate = 0
  #reportedMs: number
  #intervalMs = 0
  #usedMs: number
  #drawMs = 0
  /** Whether the store is being asked. */
  isDrawing = false
  /** Whether a charge is on its way. */
  isCharging = false
  /** Calls that were admitted without a lease, and are not charged yet. */
  #unpaid = 0
  isClosed = false
  /** Whether work for it is waiting. */
  isQueued = false
  /** The counters that count it, as the last draw found them. */
  counters: readonly string[] = []
  /** Whether the last report says that the proxy has not used it for long. */
  #isUnused = false

  constructor(id: BucketId, nowMs: number) {
    this.id = id
    this.#reportedMs = nowMs
    this.#usedMs = nowMs
  }

  /** The calls that are charged and not known to be spent. */
  get held(): number {
    return sumOf(this.#draws) + sumOf(this.#banked) + sumOf(this.#returnable)
  }

  get strategy(): Strategy | undefined {
    return this.#active?.strategy
  }

  /** Takes a report. `isFirst`: it says nothing about the rate. */
  report(allowed: number, denied: number, nowMs: number, isFirst: boolean): Reported {
    const elapsedMs = nowMs - this.#reportedMs
    const calls = allowed + denied
    if (!isFirst) {
      const rate = calls / Math.max(elapsedMs, ELAPSED_MS_MIN)
      this.#rate = calls === 0 ? 0 : Math.max(rate, ((this.#rate ?? rate) + rate) / 2)
      this.#intervalMs = elapsedMs
    }
    if (calls > 0) this.#usedMs = nowMs
    const spent = this.spend(allowed)
    this.estimateLeft(allowed, elapsedMs, nowMs)
    if (denied > 0) this.noteDenied()
    this.collectReturnable(nowMs)
    this.#isUnused = nowMs - this.#usedMs >= IDLE_MS
    this.#reportedMs = nowMs
    const beyond = allowed - spent
    this.#unpaid += beyond
    return { spent, beyond }
  }

  /** The calls to charge now; 0 while others are being charged. */
  takeUnpaid(): number {
    if (this.isCharging || this.#unpaid === 0) return 0
    const calls = this.#unpaid
    this.#unpaid = 0
    this.isCharging = true
    return calls
  }

  /** Removes what reports prove that the proxy does not hold any more. */
  takeReturnable(): readonly Draw[] {
    const returnable = this.#returnable
    if (returnable.length > 0) this.#returnable = []
    return returnable
  }

  /** Removes everything: the proxy has forgotten the bucket, or is gone. */
  close(): readonly Draw[] {
    this.isClosed = true
    const all = [...this.#returnable, ...this.#draws, ...this.#banked]
    this.#returnable = []
    this.#draws = []
    this.#banked = []
    return all
  }

  /** Whether the proxy has not used it for so long that it should forget it. */
  isIdle(nowMs: number): boolean {
    return this.#isUnused || nowMs - this.#reportedMs >= SILENT_MS
  }

  /** Whether the rules should be asked: for a lease, or whether what was assigned still holds. */
  needsDraw(nowMs: number): boolean {
    if (this.isDrawing || nowMs < this.#drawMs) return false
    const active = this.#active
    if (active === undefined) return true
    if (active.strategy.kind === 'allow') return active.expiresMs - nowMs < RENEW_MS
    if (active.strategy.kind === 'deny' || nowMs >= active.endsMs) return true
    const left = this.leftAt(nowMs) + sumOf(this.#banked)
    return left < 1 || left < this.rateAt(nowMs) * LOW_MS
  }

  /** How many calls to draw. */
  wanted({ least, most, perMs }: LeaseBounds, nowMs: number): number {
    this.#assumedRate = perMs
    const leaseMs = LEASE_INTERVALS * this.#intervalMs
    const forMs = Math.min(Math.max(leaseMs, LEASE_MS_MIN), LEASE_MS_MAX)
    const wanted = Math.min(Math.max(least, Math.ceil(this.rateAt(nowMs) * forMs)), most)
    return Math.max(1, wanted - sumOf(this.#banked))
  }

  /** Adds what was drawn. Returns draws of a window that has ended, which nobody may spend now. */
  add(draw: Draw, nowMs: number): readonly Draw[] {
    const over = this.#banked.filter(({ endsMs }) => nowMs >= endsMs)
    this.#banked = [...this.#banked.filter(({ endsMs }) => nowMs < endsMs), draw]
    return over
  }

  /** Notes that the store has nothing left, or cannot be asked. */
  refuse(retryMs: number | null, nowMs: number): void {
    const waitMs = Math.min(Math.max(retryMs ?? RETRY_MS_MAX, RETRY_MS_MIN), RETRY_MS_MAX)
    this.#drawMs = nowMs + waitMs
  }

  /** Assigns what was drawn, if it is more than the proxy holds; else that stays as it is. */
  assignDrawn(nowMs: number): Strategy | undefined {
    const calls = sumOf(this.#banked)
    const active = this.#active
    const isCurrent = active?.strategy.kind === 'lease' && nowMs < active.endsMs
    if (calls === 0 || (isCurrent && calls <= this.leftAt(nowMs))) return undefined
    const endsMs = Math.min(...this.#banked.map((draw) => draw.endsMs))
    this.replaceLease(nowMs)
    this.#draws.push(...this.#banked)
    this.#banked = []
    this.#left = calls
    this.#leftMs = nowMs
    return this.assign({ kind: 'lease', calls }, nowMs, endsMs)
  }

  /** Assigns a rule for all calls. What the proxy held before is replaced by it. */
  assign(strategy: Strategy, nowMs: number, endsMs = Infinity): Strategy {
    if (strategy.kind !== 'lease') this.replaceLease(nowMs)
    this.#active = { strategy, sentMs: nowMs, expiresMs: nowMs + TTL_SECONDS * 1000, endsMs }
    return strategy
  }

  /**
   * Whether its lease was not renewed in time, so that the proxy may have lost it: Envoy would then
   * take the renewal for a new lease, and begin it full.
   */
  hasLapsed(nowMs: number): boolean {
    const active = this.#active
    return active?.strategy.kind === 'lease' && nowMs >= active.expiresMs - APPLIED_MS
  }

  /** Renews the time of what was assigned, if it is soon over; returns it then. */
  renew(nowMs: number): Strategy | undefined {
    const active = this.#active
    if (active === undefined || active.expiresMs - nowMs >= RENEW_MS) return undefined
    // The rules are being asked whether it still holds.
    if (active.strategy.kind === 'allow' && this.isDrawing) return undefined
    active.expiresMs = nowMs + TTL_SECONDS * 1000
    return active.strategy
  }

  private spend(calls: number): number {
    let rest = calls
    for (const draw of this.#draws) rest -= draw.spend(rest)
    // Calls that were drawn and are not assigned yet pay for what was spent without a lease.
    for (const draw of this.#banked) rest -= draw.spend(rest)
    const hasLeft = ({ left }: Draw) => left > 0
    this.#draws = this.#draws.filter(hasLeft)
    this.#banked = this.#banked.filter(hasLeft)
    return calls - rest
  }

  /** Of what was spent since the last report, the active lease has its share of the time. */
  private estimateLeft(allowed: number, elapsedMs: number, nowMs: number): void {
    const active = this.#active
    if (active?.strategy.kind !== 'lease') return
    const { calls } = active.strategy
    const sinceMs = nowMs - active.sentMs
    const before = sinceMs < elapsedMs ? calls : Math.min(this.#left, calls)
    const spent = elapsedMs <= sinceMs ? allowed : (allowed * sinceMs) / elapsedMs
    const sure = sumOf(this.#draws.filter(({ replacedMs }) => replacedMs === undefined))
    this.#left = Math.max(0, Math.min(before - spent, sure))
    this.#leftMs = nowMs
  }

  /** A proxy that refuses has spent its lease, if that was the same since the last report. */
  private noteDenied(): void {
    const active = this.#active
    if (active?.strategy.kind !== 'lease') return
    if (this.#reportedMs - active.sentMs < APPLIED_MS) return
    for (const draw of this.#draws) draw.replacedMs = active.sentMs
    this.#left = 0
  }

  private collectReturnable(nowMs: number): void {
    const isOver = ({ replacedMs }: Draw) =>
      replacedMs !== undefined && nowMs - replacedMs >= APPLIED_MS
    const over = this.#draws.filter(isOver)
    if (over.length === 0) return
    this.#draws = this.#draws.filter((draw) => !isOver(draw))
    this.#returnable.push(...over)
  }

  private replaceLease(nowMs: number): void {
    for (const draw of this.#draws) draw.replacedMs ??= nowMs
  }

  private leftAt(nowMs: number): number {
    return Math.max(0, this.#left - this.rateAt(nowMs) * (nowMs - this.#leftMs))
  }

  private rateAt(nowMs: number): number {
    const quietMs = Math.max(QUIET_MS_MIN, 3 * this.#intervalMs)
    return nowMs - this.#reportedMs > quietMs ? 0 : (this.#rate ?? this.#assumedRate)
  }
}

function sumOf(draws: readonly Draw[]): number {
  let sum = 0
  for (const { left } of draws) sum += left
  return sum
}
