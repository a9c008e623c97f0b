/**
 * The way to one other region: sends what was taken and returned here to its store, as charges and
 * gives. Nothing is sent again after it may have run; what certainly did not run waits for the next
 * round, and while the region does not answer everything waits.
 */
import { algorithmOf, type CounterKey, type Limit } from '@sluice/core'
import { timeToRegainDebt } from '../coordination/local/debt-limit.js'
import type { Usage } from '../coordination/local/unreported-usage.js'
import type { Store } from '../store.js'
import { Outbox, type OutboxChange, type OutboxReport } from './outbox.js'

/** Counters of which reports are on their way at once: about a second of the busiest fleet. */
const SENDING_MAX = 20_000
/**
 * While a report has been on its way for longer, no more are sent: on a wire that breaks, what was
 * sent is lost for that region.
 */
const STALL_MS = 500
/** How often what waits for a region that does not answer is checked for its age. */
const EXPIRE_EVERY_MS = 1000
/** The largest debt of a charge: that of a limit of a rule. */
const DEBT_MAX = 999_999_999_999_999

/** What became of units that were spent here. */
interface RegionFates {
  /** The region has confirmed them. */
  readonly sent: number
  /** They may have been charged, but the answer was lost; they are not sent again. */
  readonly unknown: number
  /** They were too old, or of too many counters. */
  readonly dropped: number
}

export interface RegionLinkStats {
  readonly region: string
  readonly fates: RegionFates
  /** Counters of which something waits. */
  readonly pending: number
  /** The age of the oldest unit that the region has not confirmed, in milliseconds; 0 for none. */
  readonly lagMs: number
  /** Whether the store of the region answers this node. */
  readonly isAnswering: boolean
}

export interface RegionLinkDeps {
  readonly region: string
  /** The store of that region. */
  readonly store: Store
  /** The number of all regions. */
  readonly regions: number
  /** The time of the own store, in microseconds. */
  readonly time: () => number
  readonly monotonicMs: () => number
}

/** Reports that were sent in one round. */
interface Shipment {
  readonly sentMs: number
  readonly sinceMs: number
  waiting: number
}

export class RegionLink {
  readonly region: string
  readonly store: Store
  readonly #deps: RegionLinkDeps
  readonly #outbox = new Outbox()
  /** Oldest first. */
  readonly #shipments = new Set<Shipment>()
  readonly #debts = new WeakMap<Limit, ChargeDebt>()
  #sending = 0
  #expiredMs = -Infinity
  #sent = 0
  #unknown = 0
  readonly #idleListeners: (() => void)[] = []

  constructor(deps: RegionLinkDeps) {
    this.#deps = deps
    this.region = deps.region
    this.store = deps.store
  }

  /** Whether the store of the region answers. */
  get isAnswering(): boolean {
    const remote = this.store.health?.().remote
    if (remote === undefined) return true
    return remote.state === 'ready' && remote.nodes.some(({ isAnswering }) => isAnswering)
  }

  stats(): RegionLinkStats {
    const { region, isAnswering } = this
    const { size: pending, dropped } = this.#outbox
    let oldestMs = this.#outbox.oldestMs()
    for (const { sinceMs } of this.#shipments) oldestMs = Math.min(oldestMs ?? sinceMs, sinceMs)
    const lagMs = oldestMs === undefined ? 0 : this.#deps.monotonicMs() - oldestMs
    const fates = { sent: this.#sent, unknown: this.#unknown, dropped }
    return { region, fates, pending, lagMs, isAnswering }
  }

  spend(change: OutboxChange): void {
    this.#outbox.spend(change)
  }

  giveBack(change: OutboxChange): void {
    this.#outbox.giveBack(change)
  }

  /** Resets a counter of the region; rejects if that is not confirmed. */
  reset(key: CounterKey): Promise<void> {
    this.#outbox.forget(key)
    return this.store.reset(key)
  }

  /** Sends what waits, unless the region does not answer. */
  sendRound(): void {
    if (this.#outbox.size === 0) return
    const nowMs = this.#deps.monotonicMs()
    const now = this.#deps.time()
    const [oldest] = this.#shipments
    const isStalled = oldest !== undefined && nowMs - oldest.sentMs > STALL_MS
    if (isStalled || this.#sending >= SENDING_MAX || !this.isAnswering) {
      this.expire(nowMs, now)
      return
    }
    const reports = this.#outbox.drain(SENDING_MAX - this.#sending, now)
    if (reports.length === 0) return
    const sinceMs = reports.reduce((oldestMs, each) => Math.min(oldestMs, each.sinceMs), nowMs)
    const shipment: Shipment = { sentMs: nowMs, sinceMs, waiting: reports.length }
    this.#shipments.add(shipment)
    this.#sending += reports.length
    for (const report of reports) {
      void this.sendReport(report).then(() => this.onSettled(shipment))
    }
  }

  /** Sends what waits for as long as it gets less, and resolves when the last answer is there. */
  async finish(): Promise<void> {
    let waiting = Infinity
    while (this.#outbox.size < waiting) {
      waiting = this.#outbox.size
      this.sendRound()
      if (this.#sending === 0) return
      await new Promise<void>((resolve) => {
        this.#idleListeners.push(resolve)
      })
    }
  }

  /** Not in every round: it looks at every counter that waits. */
  private expire(nowMs: number, now: number): void {
    if (nowMs - this.#expiredMs < EXPIRE_EVERY_MS) return
    this.#expiredMs = nowMs
    this.#outbox.expire(now)
  }

  private onSettled(shipment: Shipment): void {
    this.#sending -= 1
    shipment.waiting -= 1
    if (shipment.waiting === 0) this.#shipments.delete(shipment)
    if (this.#sending > 0) return
    this.#outbox.onSettled()
    for (const listener of this.#idleListeners.splice(0)) listener()
  }

  /**
   * Never rejects. All is sent at once: on one connection the gives arrive after the charges of the
   * units that they return.
   */
  private async sendReport(report: OutboxReport): Promise<void> {
    const { key, limit, spent, returned } = report
    const { debt, debtUs } = this.debtOf(limit)
    const charges = spent.map((usage) => {
      const at = usage.at + debtUs
      const charge = this.store.charge({ key, limit, amount: usage.amount, at, debt })
      return charge.then(
        () => {
          this.#sent += usage.amount
        },
        (error: unknown) => this.onFailed(error, report, usage, 'spent'),
      )
    })
    const gives = returned.map((usage) => {
      const give = this.store.give({ key, limit, amount: usage.amount, at: usage.at })
      return give.catch((error: unknown) => this.onFailed(error, report, usage, 'returned'))
    })
    await Promise.all([...charges, ...gives])
  }

  private onFailed(
    error: unknown,
    report: OutboxReport,
    usage: Usage,
    kind: 'spent' | 'returned',
  ): void {
    if (certainlyDidNotRun(error)) this.#outbox.restore(report, usage, kind)
    else if (kind === 'spent') this.#unknown += usage.amount
  }

  private debtOf(limit: Limit): ChargeDebt {
    const known = this.#debts.get(limit)
    if (known !== undefined) return known
    const debt = chargeDebt(limit, this.#deps.regions)
    this.#debts.set(limit, debt)
    return debt
  }
}

interface ChargeDebt {
  readonly debt: number
  /** How much later than they were spent units are charged to a bucket. */
  readonly debtUs: number
}

/**
 * A window counts all that regions spend in it, but a sliding counter no more than its max: the
 * rest would be refused in the window after it to callers that are within their limit. A bucket
 * owes what its limit may hold; because it takes so long to regain its debt, units are charged that
 * much later: what is older than its burst takes to refill would be dropped although the bucket
 * still owes.
 */
function chargeDebt(limit: Limit, regions: number): ChargeDebt {
  const { family, windowsCounted } = algorithmOf(limit)
  if (family !== 'bucket') {
    // Under a ceiling, the counter is that of the whole limit.
    const reserved = limit.borrowable
    const owed = windowsCounted === 2 ? 0 : regions * (limit.max + reserved)
    return { debt: Math.min(reserved + owed, DEBT_MAX), debtUs: 0 }
  }
  return { debt: limit.borrowable, debtUs: timeToRegainDebt(limit) }
}

function certainlyDidNotRun(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  return 'silence' in error && error.silence === 'not-run'
}
