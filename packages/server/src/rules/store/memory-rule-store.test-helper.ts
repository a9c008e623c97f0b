/** A rule store in memory, with as many handles as a test has nodes. */
import { VersionBuilder } from './version-builder.js'
import { changesOf, type VersionEntry, firstEntry, pastVersion } from './version-entry.js'
import { RecordTable } from './record-table.js'
import { LiveNodes } from './live-nodes.js'
import type { RecordChunk, PastChange, RuleStore } from './rule-store.js'

export interface MemoryRuleStore extends RuleStore {
  /** Another handle on the same store, as another node has one. */
  connect(): MemoryRuleStore
}

interface SharedState {
  readonly now: () => number
  readonly table: RecordTable
  readonly entries: VersionEntry[]
  readonly nodes: LiveNodes
  /** Of all handles. */
  readonly listeners: Set<() => void>
}

export interface MemoryRuleStoreOptions {
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** How many recent changes are kept: see `RecordTable`. */
  readonly recentChangesMax?: number
}

export function memoryRuleStore(options: MemoryRuleStoreOptions = {}): MemoryRuleStore {
  const { now = () => 0, ...tableOptions } = options
  const table = new RecordTable(tableOptions)
  const shared = {
    now,
    table,
    entries: [],
    nodes: new LiveNodes(),
    listeners: new Set<() => void>(),
  }
  const handle = new StoreHandle(shared)
  append(shared, firstEntry(isoOf(shared)))
  table.begin()
  return handle
}

class StoreHandle implements MemoryRuleStore {
  readonly name = 'memory'
  readonly #shared: SharedState
  readonly #listeners = new Set<() => void>()

  constructor(shared: SharedState) {
    this.#shared = shared
  }

  connect(): MemoryRuleStore {
    return new StoreHandle(this.#shared)
  }

  async *read(since: Parameters<RuleStore['read']>[0]): AsyncIterable<RecordChunk> {
    yield* this.#shared.table.read(since)
  }

  async commit(commit: Parameters<RuleStore['commit']>[0]) {
    return append(
      this.#shared,
      new VersionBuilder(this.#shared.table).add(commit, isoOf(this.#shared)),
    )
  }

  async history({ rule, before = Infinity, limit }: Parameters<RuleStore['history']>[0]) {
    return this.#shared.entries
      .filter((entry) => entry.version < before)
      .filter((entry) => rule === undefined || changesOf(entry, rule).length > 0)
      .toReversed()
      .slice(0, limit)
      .map((entry) => pastVersion(entry, rule))
  }

  async *changesAfter(version: number, rule?: string): AsyncIterable<PastChange> {
    const { table, entries } = this.#shared
    if (!table.hasVersion(version)) throw new RangeError(`there is no version ${version}`)
    for (const entry of entries.toReversed()) {
      if (entry.version > version) yield* changesOf(entry, rule).toReversed()
    }
  }

  async keys({ after, user, limit }: Parameters<RuleStore['keys']>[0]) {
    return this.#shared.table
      .keysAfter(after, Infinity)
      .filter(({ body }) => user === undefined || body?.user === user)
      .slice(0, limit)
  }

  async key(id: string) {
    return this.#shared.table.key(id)
  }

  async adopt(above: number, by: string, why: string | undefined) {
    const builder = new VersionBuilder(this.#shared.table)
    return append(this.#shared, builder.adopt(above, by, why, isoOf(this.#shared)))
  }

  async report(node: Parameters<RuleStore['report']>[0]) {
    this.#shared.nodes.add(node, this.#shared.now())
  }

  async nodes() {
    return this.#shared.nodes.list(this.#shared.now())
  }

  onChange(listener: () => void): () => void {
    const own = () => listener()
    this.#listeners.add(own)
    this.#shared.listeners.add(own)
    return () => {
      this.#listeners.delete(own)
      this.#shared.listeners.delete(own)
    }
  }

  status() {
    return { isConnected: true, news: 'push', problem: undefined } as const
  }

  async close() {
    for (const listener of this.#listeners) this.#shared.listeners.delete(listener)
    this.#listeners.clear()
  }
}

function append({ table, entries, listeners }: SharedState, entry: VersionEntry) {
  table.apply(entry)
  entries.push(entry)
  for (const listener of listeners) queueMicrotask(listener)
  return table.position
}

function isoOf({ now }: SharedState): string {
  return new Date(now()).toISOString()
}
