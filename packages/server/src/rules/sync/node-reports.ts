/** Reports this node and its rules version to the rule store: on every change, and regularly. */
import type { NodeReport, RuleStore } from '../store/rule-store.js'
import type { Scheduler } from '../../lib/scheduler.js'

/** The store drops nodes that did not report for a minute. */
const REPORT_EVERY_MS = 5000

export class NodeReports {
  readonly #store: Pick<RuleStore, 'report'>
  readonly #scheduler: Scheduler
  readonly #describe: () => NodeReport
  #isSending = false
  #isRequested = false
  #cancel = () => {}
  #isClosed = false

  constructor(store: Pick<RuleStore, 'report'>, scheduler: Scheduler, describe: () => NodeReport) {
    this.#store = store
    this.#scheduler = scheduler
    this.#describe = describe
  }

  /** Reports now, and from then on regularly. The next report makes up for one that fails. */
  report(): void {
    this.#isRequested = true
    if (!this.#isSending && !this.#isClosed) void this.send()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel()
  }

  private async send(): Promise<void> {
    this.#isSending = true
    this.#isRequested = false
    this.#cancel()
    await this.#store.report(this.#describe()).catch(() => {})
    this.#isSending = false
    if (this.#isClosed) return
    if (this.#isRequested) void this.send()
    else this.#cancel = this.#scheduler.after(REPORT_EVERY_MS, () => this.report())
  }
}
