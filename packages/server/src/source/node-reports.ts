/** Tells a rule store that this node lives and what it runs: at every change, and regularly. */
import type { NodeReport, RuleStore } from '../rule-store/rule-store.js'
import type { Timers } from './timers.js'

/** The store forgets nodes that were silent for a minute. */
const REPORT_EVERY_MS = 5000

export class NodeReports {
  readonly #store: Pick<RuleStore, 'report'>
  readonly #timers: Timers
  readonly #describe: () => NodeReport
  #isTelling = false
  #isWanted = false
  #cancel = () => {}
  #isClosed = false

  constructor(store: Pick<RuleStore, 'report'>, timers: Timers, describe: () => NodeReport) {
    this.#store = store
    this.#timers = timers
    this.#describe = describe
  }

  /** Now, and from then on regularly. A report that fails is made up for by the next. */
  tell(): void {
    this.#isWanted = true
    if (!this.#isTelling && !this.#isClosed) void this.send()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
  }

  private async send(): Promise<void> {
    this.#isTelling = true
    this.#isWanted = false
    this.#cancel()
    await this.#store.report(this.#describe()).catch(() => {})
    this.#isTelling = false
    if (this.#isClosed) return
    if (this.#isWanted) void this.send()
    else this.#cancel = this.#timers.after(REPORT_EVERY_MS, () => this.tell())
  }
}
