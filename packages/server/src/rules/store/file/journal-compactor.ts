/** Checks whether the journal is due for compaction, and runs one compaction at a time. */
import type { WallClock } from '../../../lib/wall-clock.js'
import type { Log } from '../../../observability/log/logger.js'
import { compact, type CompactionDeps, findFirstKept, type HistoryOptions } from './compaction.js'
import { reasonOf } from './fs.js'
import type { Journal } from './journal.js'

export interface JournalCompactorDeps extends Omit<CompactionDeps, 'signal'> {
  readonly log: Log | undefined
  readonly clock: WallClock
  readonly history: HistoryOptions
  readonly garbageBytesMin: number | undefined
  readonly journal: () => Journal
}

/** How often ages are checked: the times of lines have to be read from disk. */
const AGES_EVERY_MS = 60 * 60_000
/** Pause after a failed compaction: on a full disk it would fail again. */
const RETRY_MS = 10 * 60_000

export class JournalCompactor {
  readonly #deps: JournalCompactorDeps
  #working: Promise<void> | undefined
  #agesAtMs = -Infinity
  #notBeforeMs = -Infinity
  readonly #closing = new AbortController()

  constructor(deps: JournalCompactorDeps) {
    this.#deps = deps
  }

  /** Called after the journal was opened, and after each commit. */
  compactIfDue(): void {
    const nowMs = this.#deps.clock.now()
    if (this.#closing.signal.aborted || this.#working !== undefined || this.isTooSoon(nowMs)) return
    const agesDue = this.#deps.history.ageMs !== undefined && this.areAgesDue(nowMs)
    const { lineCount } = this.#deps.journal()
    if (!agesDue && lineCount <= this.#deps.history.versions) return
    if (agesDue) this.#agesAtMs = nowMs
    this.#working = this.run(agesDue ? nowMs : undefined).finally(() => {
      this.#working = undefined
    })
  }

  /** Cancels a compaction in progress; the journal is unchanged. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#working
  }

  /** Bounded below too, so that a clock that was set back does not stop compaction. */
  private isTooSoon(nowMs: number): boolean {
    return nowMs < this.#notBeforeMs && nowMs > this.#notBeforeMs - RETRY_MS
  }

  private areAgesDue(nowMs: number): boolean {
    return Math.abs(nowMs - this.#agesAtMs) >= AGES_EVERY_MS
  }

  private async run(nowMs: number | undefined): Promise<void> {
    const { log, history, garbageBytesMin: bytesMin, clock } = this.#deps
    const journal = this.#deps.journal()
    const { length: before, path: file } = journal
    try {
      const first = await findFirstKept(journal, history, { nowMs, bytesMin })
      if (first === undefined) return
      await compact(journal, first, { ...this.#deps, signal: this.#closing.signal })
      const { length: bytes, keptSince } = this.#deps.journal()
      log?.info({ file, before, bytes, keptSince }, 'rule store: journal compacted')
    } catch (error) {
      if (this.#closing.signal.aborted) return
      this.#notBeforeMs = clock.now() + RETRY_MS
      const fields = { file, error: reasonOf(error) }
      log?.warn(fields, 'rule store: journal compaction failed; the journal is unchanged')
    }
  }
}
