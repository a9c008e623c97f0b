/** Computes and checks the next versions of a record table, without applying them. */
import { bodyText, checkCommit, checkMeta, recordKey } from './check-commit.js'
import { type VersionEntry, newLineage, newMark } from './version-entry.js'
import type { RecordTable } from './record-table.js'
import { type Commit, ConflictError, type Position } from './rule-store.js'

export class VersionBuilder {
  readonly #table: RecordTable
  /** Bodies of the records that the entries so far change; null: removed. */
  readonly #bodies = new Map<string, unknown>()
  #position: Position

  constructor(table: RecordTable) {
    this.#table = table
    this.#position = table.position
  }

  /** The position after the entries so far. */
  get position(): Position {
    return this.#position
  }

  /** Throws a `ConflictError`, or a `RangeError` for what cannot be stored; then adds nothing. */
  add(commit: Commit, at: string): VersionEntry {
    checkCommit(commit)
    if (commit.base !== this.#position.version) throw new ConflictError(this.#position.version)
    const changes = commit.changes.map((change) => {
      const { kind, id } = change
      const key = recordKey(kind, id)
      const before = this.#bodies.has(key) ? this.#bodies.get(key) : this.#table.body(kind, id)
      // A copy, as it will be read back: the caller may modify its own object later.
      const after: unknown = JSON.parse(bodyText(change))
      return { kind, id, before, after }
    })
    for (const { kind, id, after } of changes) this.#bodies.set(recordKey(kind, id), after)
    const { by, why } = commit
    const entry = { version: commit.base + 1, mark: newMark(), at, by, why, changes }
    this.#position = { ...this.#position, version: entry.version, mark: entry.mark }
    return entry
  }

  adopt(above: number, by: string, why: string | undefined, at: string): VersionEntry {
    checkMeta(by, why)
    if (!Number.isSafeInteger(above + 1) || above < 0) {
      throw new RangeError(`found version ${above}; accepted: a whole number from 0`)
    }
    const version = Math.max(above, this.#position.version) + 1
    const [mark, lineage] = [newMark(), newLineage()]
    this.#position = { version, mark, lineage }
    return { version, mark, at, by, why, lineage, changes: [] }
  }
}
