/**
 * Follows a rules file: reads it at the start, and again when it changes. An invalid set replaces
 * nothing. The rules cannot be changed through the admin API.
 */
import type { Rule, RuleContext } from '@sluice/core'
import { type Limiter, RulesError } from '@sluice/limiter'
import type { WallClock } from '../../lib/wall-clock.js'
import { describeChanges } from '../editor/audit.js'
import { watchFile } from '@sluice/limiter/internal'
import type { Log } from '../../observability/log/logger.js'
import type { RulesFileContent } from '../../startup/preflight.js'
import type { Change, StoredRecord } from '../store/records.js'
import { UnavailableError } from '../store/rule-store.js'
import { type WritableCatalog, createCatalog } from './rule-catalog.js'
import { recordsOfFile } from './file-records.js'
import { parseInWorker, type ParsedText, parseText } from './parse-in-worker.js'
import type { RuleFollower } from './rule-follower.js'
import { compareRules, logNoRules, logWeakenings } from './weakened-rules.js'

interface RulesFileFollowerDeps {
  readonly limiter: Pick<Limiter, 'setParsedRules'>
  readonly log: Log
  readonly clock: WallClock
}

const PROBLEMS_LOGGED = 20

/** Keeps a limiter on the rules of a file. Throws a `RulesError` if they are invalid at first. */
export function followRulesFile(
  rules: RulesFileContent,
  deps: RulesFileFollowerDeps,
): RuleFollower {
  return new RulesFileFollower(rules, deps)
}

class RulesFileFollower implements RuleFollower {
  readonly name: string
  readonly store = undefined
  readonly catalog: WritableCatalog = createCatalog()
  readonly #file: string
  readonly #ruleContext: RuleContext | undefined
  readonly #deps: RulesFileFollowerDeps
  readonly #watcher: { close(): void }
  #activeText: string
  #records: readonly StoredRecord[] = []
  #byId: ReadonlyMap<string, Rule> | undefined
  #hasHadRules = false
  #version = 0
  #failures = 0
  #badSince: number | undefined
  #problem: string | undefined
  #isClosed = false
  /** Serializes changes of the file, so that the last one written is the last one loaded. */
  #last = Promise.resolve()

  constructor({ file, text, parsed, ruleContext }: RulesFileContent, deps: RulesFileFollowerDeps) {
    this.name = `the file ${file}`
    this.#file = file
    this.#ruleContext = ruleContext
    this.#activeText = text
    this.#deps = deps
    this.activate(parseText(text, file, parsed))
    this.#watcher = watchFile(
      file,
      (changed) => {
        this.#last = this.#last.then(() => this.onFileChange(changed))
      },
      { known: text, onError: (error) => this.fail([error.message]) },
    )
  }

  isReady(): boolean {
    return true
  }

  hasHadRules(): boolean {
    return this.#hasHadRules
  }

  version(): number {
    return this.#version
  }

  ageSeconds(): number {
    if (this.#badSince === undefined) return 0
    return (this.#deps.clock.now() - this.#badSince) / 1000
  }

  failures(): number {
    return this.#failures
  }

  problem(): string | undefined {
    return this.#problem
  }

  status(): undefined {
    return undefined
  }

  /** Rules of a file have no timed shadow. */
  shadowUntil(): undefined {
    return undefined
  }

  async refresh(version: number): Promise<void> {
    await this.#last
    if (this.#version >= version) return
    throw new UnavailableError(`version ${version} is not active: the file is at ${this.#version}`)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#watcher.close()
  }

  private async onFileChange(changed: string): Promise<void> {
    const file = this.#file
    // A file that was missing for a while may come back unchanged.
    if (changed === this.#activeText) return this.clearProblem()
    try {
      const read = await parseInWorker(changed, { file, ruleContext: this.#ruleContext })
      if (this.#isClosed) return
      const what = this.activate(read)
      this.#activeText = changed
      this.clearProblem()
      this.#deps.log.info({ file, version: this.#version, what }, 'rules changed')
    } catch (error) {
      if (!(error instanceof RulesError)) return this.fail([String(error)])
      this.fail(error.problems.map(({ message }) => message))
    }
  }

  /** Returns what changed, as text for the log; undefined where the file cannot be listed. */
  private activate(read: ParsedText): readonly string[] | undefined {
    const { limiter, log } = this.#deps
    const file = this.#file
    const warnings = limiter.setParsedRules(read.parsed)
    this.#version++
    const what = this.updateCatalog(read)
    for (const { message } of warnings) log.warn({ file, problem: message }, 'rules warning')
    this.compare(read.parsed.rules?.rules ?? [])
    return what
  }

  /** Logs a warning where this set protects less than the one before it. */
  private compare(rules: readonly Rule[]): void {
    const { log } = this.#deps
    const fields = { file: this.#file, version: this.#version }
    const before = this.#byId
    const after = new Map(rules.map((rule) => [rule.id, rule]))
    this.#byId = after
    if (after.size > 0) this.#hasHadRules = true
    if (after.size === 0 && before?.size !== 0) logNoRules(log, fields)
    if (before !== undefined) logWeakenings(log, compareRules(before, after), fields)
  }

  /** Fills the catalog for the admin API; decisions do not depend on it. */
  private updateCatalog(read: ParsedText): readonly string[] | undefined {
    const { rules } = read.parsed
    const { value, problems } = read.plain
    const version = this.#version
    const position = { version, mark: '', lineage: this.#file }
    if (rules === undefined) return undefined
    const before = this.#records
    const [problem] = problems
    if (problem === undefined) {
      this.#records = recordsOfFile(value, rules, { version, before })
    } else {
      this.#records = []
      const fields = { file: this.#file, problem: problem.message }
      this.#deps.log.warn(fields, 'rules active, but cannot be listed')
    }
    const what =
      problem === undefined
        ? describeChanges(this.catalog, changesBetween(before, this.#records)).what
        : undefined
    this.catalog.addChunk({ isWhole: true, records: this.#records, position })
    return what
  }

  private clearProblem(): void {
    this.#badSince = undefined
    this.#problem = undefined
  }

  private fail(messages: readonly string[]): void {
    this.#failures++
    this.#badSince ??= this.#deps.clock.now()
    this.#problem = messages[0]
    for (const problem of messages.slice(0, PROBLEMS_LOGGED)) {
      this.#deps.log.error({ file: this.#file, problem }, 'rules invalid: active rules stay')
    }
  }
}

/** Compares records by identity: an unchanged one is the same object, see `recordsOfFile`. */
function changesBetween(
  before: readonly StoredRecord[],
  after: readonly StoredRecord[],
): readonly Change[] {
  const known = new Set(before)
  const left = new Set(after.map(({ kind, id }) => `${kind} ${id}`))
  const removed = before.filter(({ kind, id }) => !left.has(`${kind} ${id}`))
  return [
    ...after.filter((record) => !known.has(record)),
    ...removed.map(({ kind, id }) => ({ kind, id, body: null })),
  ]
}
