/**
 * The in-memory state of a rule store: the present records, recent changes, and the known versions.
 * It persists nothing: the owner keeps the history.
 */
import { CHUNK_RECORDS_MAX, type RecordChunk, DivergedError, type Position } from './rule-store.js'
import { recordKey } from './check-commit.js'
import type { VersionEntry } from './version-entry.js'
import type { Kind, StoredKey, StoredRecord } from './records.js'
import { SortedIds } from './sorted-ids.js'

type RecordName = Pick<StoredRecord, 'kind' | 'id'>

/** The order in which kinds are read: what others refer to comes first. */
const KINDS: readonly Kind[] = ['secret', 'set', 'rule', 'candidate', 'override', 'token', 'key']

/**
 * How many recent changes are kept. A reader with an older position reads everything, because
 * removals before it are no longer known.
 */
const RECENT_CHANGES_MAX = 200_000

/** How many versions are kept with their marks, 16 bytes each. Beyond it half of them go. */
const VERSIONS_MAX = 2_000_000

/** The position at which a table starts whose older versions are not known. */
export interface BasePosition {
  readonly position: Position
  /** The first version of the lineage, and whether another lineage came before it. */
  readonly lineageStart: number
  readonly isAdopted: boolean
}

interface Lineage {
  readonly lineage: string
  readonly start: number
  readonly isAdopted: boolean
}

export interface RecordTableOptions {
  /** @default 200,000 */
  readonly recentChangesMax?: number
}

export class RecordTable {
  readonly #records = new Map<Kind, Map<string, StoredRecord>>(
    KINDS.map((kind) => [kind, new Map()]),
  )
  /** Undefined while the history is being loaded: see `begin`. */
  #keyIds: SortedIds | undefined
  /** Versions, and their marks as numbers; oldest first. */
  #versions: number[] = []
  #marks: number[] = []
  readonly #recentChangesMax: number
  /** Records that the versions after `#recentStart` changed, oldest first. */
  #recent: { readonly version: number; readonly changed: readonly RecordName[] }[] = []
  #recentStart = 0
  #recentCount = 0
  /** Index of the oldest valid entry: those before it are removed many at a time. */
  #recentFrom = 0
  #position: Position | undefined
  /** Oldest first; the last is the current one. */
  #lineages: Lineage[] = []

  constructor({ recentChangesMax = RECENT_CHANGES_MAX }: RecordTableOptions = {}) {
    this.#recentChangesMax = recentChangesMax
  }

  /** Throws if there is no version yet. */
  get position(): Position {
    if (this.#position === undefined) throw new Error('the rule store has no version yet')
    return this.#position
  }

  /** Describes why an entry cannot be the next one; undefined: it can. */
  problemOf({ version, lineage }: Pick<VersionEntry, 'version' | 'lineage'>): string | undefined {
    const last = this.#position?.version ?? 0
    if (lineage !== undefined && version > last) return undefined
    if (this.#position !== undefined && version === last + 1) return undefined
    return `found version ${version} after version ${last}`
  }

  apply(entry: VersionEntry): void {
    const problem = this.problemOf(entry)
    if (problem !== undefined) throw new RangeError(problem)
    const { version, mark, lineage, changes } = entry
    if (lineage !== undefined) {
      const isAdopted = this.#position !== undefined
      this.#lineages.push({ lineage, start: version, isAdopted })
    }
    for (const { kind, id, after } of changes) this.put(kind, id, after, version)
    this.#position = { version, mark, lineage: lineage ?? this.position.lineage }
    this.addVersion(version, mark)
    this.remember(version, changes)
  }

  /** Loads the records of a base before any version is applied, in one call or several. */
  putBase(records: readonly StoredRecord[]): void {
    for (const { kind, id, body, version } of records) this.put(kind, id, body, version)
  }

  /** Sets the version of the records that `putBase` loaded. */
  startAt({ position, lineageStart, isAdopted }: BasePosition): void {
    if (this.#position !== undefined) throw new Error('the rule store has versions already')
    this.#lineages.push({ lineage: position.lineage, start: lineageStart, isAdopted })
    this.#position = position
    this.addVersion(position.version, position.mark)
    this.#recentStart = position.version
  }

  /** Returns the position at a version; undefined if it is not known. */
  basePositionAt(version: number): BasePosition | undefined {
    const index = this.indexOf(version)
    const current = this.#lineages.findLast(({ start }) => start <= version)
    if (index === undefined || current === undefined) return undefined
    const { lineage, start, isAdopted } = current
    const position = { version, mark: markText(this.#marks[index] ?? 0), lineage }
    return { position, lineageStart: start, isAdopted }
  }

  /** Returns every present record. */
  allRecords(): readonly StoredRecord[] {
    const all: StoredRecord[] = []
    for (const records of this.#records.values()) for (const one of records.values()) all.push(one)
    return all
  }

  /**
   * Called when the history is loaded: from now on changes are kept for readers. Keeping those of a
   * million loaded records, which no reader has seen, would only take time.
   */
  begin(): void {
    this.#keyIds ??= new SortedIds(this.#records.get('key')?.keys())
  }

  body(kind: Kind, id: string): unknown {
    return this.#records.get(kind)?.get(id)?.body ?? null
  }

  key(id: string): StoredKey | undefined {
    return this.#records.get('key')?.get(id) as StoredKey | undefined
  }

  /** Returns a page in the order of ids, starting after `after`. */
  keysAfter(after: string | undefined, limit: number): readonly StoredKey[] {
    const ids = this.#keyIds?.page(after, limit) ?? []
    return ids.flatMap((id) => this.key(id) ?? [])
  }

  /** In no order; changes during the iteration may be included or not. */
  keys(): Iterable<StoredKey> {
    return (this.#records.get('key')?.values() ?? []) as Iterable<StoredKey>
  }

  records(kind: Kind): Iterable<StoredRecord> {
    return this.#records.get(kind)?.values() ?? []
  }

  hasVersion(version: number): boolean {
    return this.indexOf(version) !== undefined
  }

  /** Returns a snapshot: versions applied during the iteration are not included. */
  read(since: Position | undefined): Iterable<RecordChunk> {
    const { position } = this
    const start = since === undefined ? undefined : this.startOf(since)
    if (start === undefined) return chunksOf(this.allRecords(), position, true)
    return chunksOf(this.changedAfter(start), position, false)
  }

  /** Returns the version to continue from; undefined: everything has to be read. */
  private startOf(since: Position): number | undefined {
    const { position } = this
    const hasLeft = since.lineage !== position.lineage
    const present = this.#lineages.at(-1)
    if (hasLeft && present?.isAdopted === true && since.version < present.start) return undefined
    const index = hasLeft ? undefined : this.indexOf(since.version)
    const mark = index === undefined ? undefined : this.#marks[index]
    // A position whose version is no longer known may be of any history: it has diverged.
    if (mark === undefined || markText(mark) !== since.mark) {
      throw new DivergedError(position, divergence(since, position))
    }
    return since.version < this.#recentStart ? undefined : since.version
  }

  private changedAfter(version: number): readonly StoredRecord[] {
    const changed = new Map<string, StoredRecord>()
    for (let index = this.#recent.length - 1; index >= 0; index--) {
      const recent = this.#recent[index]
      if (recent === undefined || recent.version <= version) break
      for (const { kind, id } of recent.changed) {
        const key = recordKey(kind, id)
        if (changed.has(key)) continue
        const gone = { kind, id, body: null, version: recent.version } as StoredRecord
        changed.set(key, this.#records.get(kind)?.get(id) ?? gone)
      }
    }
    return [...changed.values()]
  }

  private addVersion(version: number, mark: string): void {
    this.#versions.push(version)
    this.#marks.push(Number.parseInt(mark, 16))
    if (this.#versions.length <= VERSIONS_MAX) return
    this.#versions = this.#versions.slice(VERSIONS_MAX / 2)
    this.#marks = this.#marks.slice(VERSIONS_MAX / 2)
    const oldest = this.#versions[0] ?? 0
    this.#lineages = this.#lineages.filter(
      (_, index, all) => (all[index + 1]?.start ?? Infinity) > oldest,
    )
  }

  private put(kind: Kind, id: string, body: unknown, version: number): void {
    const records = this.#records.get(kind)
    if (body === null) records?.delete(id)
    else records?.set(id, { kind, id, body, version } as StoredRecord)
    if (kind !== 'key') return
    if (body === null) this.#keyIds?.delete(id)
    else this.#keyIds?.add(id)
  }

  private remember(version: number, changes: readonly RecordName[]): void {
    if (this.#keyIds === undefined) {
      this.#recentStart = version
      return
    }
    // Without the bodies, so that replaced ones are not retained.
    this.#recent.push({ version, changed: changes.map(({ kind, id }) => ({ kind, id })) })
    this.#recentCount += changes.length + 1
    const last = this.#recent.length - 1
    while (this.#recentCount > this.#recentChangesMax && this.#recentFrom < last) {
      const oldest = this.#recent[this.#recentFrom]
      this.#recentCount -= (oldest?.changed.length ?? 0) + 1
      this.#recentStart = oldest?.version ?? version
      this.#recentFrom++
    }
    // Only when half of it is stale: copying the list for every version would be too slow.
    if (this.#recentFrom * 2 < this.#recent.length) return
    this.#recent = this.#recent.slice(this.#recentFrom)
    this.#recentFrom = 0
  }

  private indexOf(version: number): number | undefined {
    let low = 0
    let high = this.#versions.length - 1
    while (low <= high) {
      const middle = (low + high) >> 1
      const found = this.#versions[middle] ?? 0
      if (found === version) return middle
      if (found < version) low = middle + 1
      else high = middle - 1
    }
    return undefined
  }
}

function markText(mark: number): string {
  return mark.toString(16).padStart(12, '0')
}

function* chunksOf(
  records: readonly StoredRecord[],
  position: Position,
  isWhole: boolean,
): Generator<RecordChunk, void, undefined> {
  let at = 0
  do {
    const part = records.slice(at, at + CHUNK_RECORDS_MAX)
    const isFirst = at === 0
    at += CHUNK_RECORDS_MAX
    const isLast = at >= records.length
    yield { isWhole: isWhole && isFirst, records: part, position: isLast ? position : undefined }
  } while (at < records.length)
}

function divergence(since: Position, store: Position): string {
  if (since.lineage !== store.lineage) {
    return `the rule store is another one than at version ${since.version}: its history is ${store.lineage}, and ${since.lineage} was followed`
  }
  if (since.version > store.version) {
    return `the rule store went back to version ${store.version} from ${since.version}`
  }
  return `the rule store has another version ${since.version} than the one that was followed`
}
