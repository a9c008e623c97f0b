/**
 * Compares the clocks of the store's nodes with the one of this machine. Limits count by the
 * store's, so a node that is off decides no less right; but one of the two is not kept by NTP, and
 * a replica set up like it would shift every window when it takes over.
 */
import { durationText } from '@sluice/core'
import { PeriodicTask, type Scheduler } from '../../periodic.js'

const COMPARE_EVERY_MS = 5000
/** Further apart than this is a problem; it is none any more below the other. */
const OFF_US = 20_000
const NEAR_US = 15_000

export interface WatchedClock {
  readonly address: string
  /** How far it is ahead of ours, and how sure that is; undefined: not known. */
  readonly ahead: { readonly offsetUs: number; readonly errorUs: number } | undefined
}

export interface ClockWatchOptions {
  readonly clocks: () => readonly WatchedClock[]
  readonly scheduler: Scheduler
  /** Called once per change, for the worse and for the better. */
  readonly onProblem: (text: string) => void
}

export class ClockWatch {
  readonly #options: ClockWatchOptions
  readonly #task: PeriodicTask
  /** Addresses whose clock is off; at most as many as there are nodes. */
  readonly #off = new Set<string>()

  constructor(options: ClockWatchOptions) {
    this.#options = options
    this.#task = new PeriodicTask(COMPARE_EVERY_MS, async () => this.compare(), options.scheduler)
  }

  start(): void {
    this.#task.start()
  }

  stop(): void {
    this.#task.stop()
  }

  private compare(): void {
    const clocks = this.#options.clocks()
    const present = new Set(clocks.map(({ address }) => address))
    for (const address of this.#off) if (!present.has(address)) this.#off.delete(address)
    for (const { address, ahead } of clocks) {
      const change = ahead && this.judge(address, ahead.offsetUs, ahead.errorUs)
      if (change !== undefined) this.#options.onProblem(`Redis at ${address}: ${change}`)
    }
  }

  /** What has changed, in words. Only what is certain is told: a slow answer is no wrong clock. */
  private judge(address: string, offsetUs: number, errorUs: number): string | undefined {
    const apartUs = Math.abs(offsetUs)
    const apart = `${durationText(apartUs / 1000)} ${offsetUs < 0 ? 'behind' : 'ahead of'} ours`
    if (!this.#off.has(address)) {
      if (apartUs - errorUs <= OFF_US) return undefined
      this.#off.add(address)
      return `its clock is ${apart}; accepted: at most ${OFF_US / 1000} ms, so keep both by NTP`
    }
    if (apartUs > NEAR_US) return undefined
    this.#off.delete(address)
    return `its clock is near to ours again (${apart})`
  }
}
