/** A rule store that forgets everything, with as many handles as a test has nodes. */
import { Draft } from './draft.js'
import { changesOf, type Entry, firstEntry, pastVersion } from './entry.js'
import { Ledger } from './ledger.js'
import { NodeList } from './node-list.js'
import type { Chunk, PastChange, RuleStore } from './rule-store.js'

export interface MemoryRuleStore extends RuleStore {
  /** Another handle on the same store, as another node has one. */
  connect(): MemoryRuleStore
}

interface Shared {
  readonly now: () => number
  readonly ledger: Ledger
  readonly entries: Entry[]
  readonly nodes: NodeList
  /** Of all handles. */
  readonly listeners: Set<() => void>
}

export interface MemoryRuleStoreOptions {
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** How many changes are told one by one: see `Ledger`. */
  readonly recentChangesMax?: number
}

export function memoryRuleStore(options: MemoryRuleStoreOptions = {}): MemoryRuleStore {
  const { now = () => 0, ...ledgerOptions } = options
  const ledger = new Ledger(ledgerOptions)
  const shared = {
    now,
    ledger,
    entries: [],
    nodes: new NodeList(),
    listeners: new Set<() => void>(),
  }
  const handle = new Handle(shared)
  keep(shared, firstEntry(isoOf(shared)))
  ledger.begin()
  return handle
}

class Handle implements MemoryRuleStore {
  readonly name = 'memory'
  readonly #shared: Shared
  readonly #listeners = new Set<() => void>()

  constructor(shared: Shared) {
    this.#shared = shared
  }

  connect(): MemoryRuleStore {
    return new Handle(this.#shared)
  }

  async *read(since: Parameters<RuleStore['read']>[0]): AsyncIterable<Chunk> {
    yield* this.#shared.ledger.read(since)
  }

  async commit(commit: Parameters<RuleStore['commit']>[0]) {
    return keep(this.#shared, new Draft(this.#shared.ledger).add(commit, isoOf(this.#shared)))
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
    const { ledger, entries } = this.#shared
    if (!ledger.hasVersion(version)) throw new RangeError(`there is no version ${version}`)
    for (const entry of entries.toReversed()) {
      if (entry.version > version) yield* changesOf(entry, rule).toReversed()
    }
  }

  async keys({ after, user, limit }: Parameters<RuleStore['keys']>[0]) {
    return this.#shared.ledger
      .keysAfter(after, Infinity)
      .filter(({ body }) => user === undefined || body?.user === user)
      .slice(0, limit)
  }

  async key(id: string) {
    return this.#shared.ledger.key(id)
  }

  async adopt(above: number, by: string, why: string | undefined) {
    const draft = new Draft(this.#shared.ledger)
    return keep(this.#shared, draft.adopt(above, by, why, isoOf(this.#shared)))
  }

  async report(node: Parameters<RuleStore['report']>[0]) {
    this.#shared.nodes.add(node, this.#shared.now())
  }

  async nodes() {
    return this.#shared.nodes.list(this.#shared.now())
  }

  onNews(listener: () => void): () => void {
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

function keep({ ledger, entries, listeners }: Shared, entry: Entry) {
  ledger.apply(entry)
  entries.push(entry)
  for (const listener of listeners) queueMicrotask(listener)
  return ledger.position
}

function isoOf({ now }: Shared): string {
  return new Date(now()).toISOString()
}
