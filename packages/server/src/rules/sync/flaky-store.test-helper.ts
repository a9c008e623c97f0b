/** A rule store whose connection a test can cut. */
import type { MemoryRuleStore } from '../store/memory-rule-store.test-helper.js'
import type { RecordChunk, Position, RuleStore } from '../store/rule-store.js'
import { UnavailableError } from '../store/rule-store.js'

export interface FlakyStore extends RuleStore {
  /** The real store. */
  target: MemoryRuleStore
  /** How requests fail: at once, or by never getting a reply. */
  fault: 'none' | 'refused' | 'silent' | 'cut'
  /** Whether listeners are notified of changes. */
  isDeaf: boolean
  /** Whether a request waits for a reply that will not come. */
  isWaiting: boolean
  /** How often it was read. */
  reads: number
  /** How many of the reads were whole. */
  wholeReads: number
}

export function flakyStore(target: MemoryRuleStore): FlakyStore {
  const store: FlakyStore = {
    name: 'memory',
    target,
    fault: 'none',
    isDeaf: false,
    isWaiting: false,
    reads: 0,
    wholeReads: 0,
    read: (since) => read(store, since),
    commit: (commit) => store.target.commit(commit),
    history: (query) => store.target.history(query),
    changesAfter: (version, rule) => store.target.changesAfter(version, rule),
    keys: (query) => store.target.keys(query),
    key: (id) => store.target.key(id),
    adopt: (above, by, why) => store.target.adopt(above, by, why),
    report: (node) =>
      store.fault === 'none' ? store.target.report(node) : Promise.reject(new Error('gone')),
    nodes: () => store.target.nodes(),
    onChange: (listener) =>
      store.target.onChange(() => {
        if (!store.isDeaf) listener()
      }),
    status: () => ({
      isConnected: store.fault === 'none',
      news: store.fault === 'none' ? 'push' : 'none',
      problem: store.fault === 'none' ? undefined : 'connection refused',
    }),
    close: async () => {},
  }
  return store
}

async function* read(store: FlakyStore, since: Position | undefined): AsyncGenerator<RecordChunk> {
  store.reads++
  if (store.fault === 'refused') throw new UnavailableError('connection refused')
  if (store.fault === 'silent') {
    store.isWaiting = true
    await new Promise(() => {})
  }
  for await (const chunk of store.target.read(since)) {
    if (chunk.isWhole) store.wholeReads++
    if (store.fault === 'cut') {
      yield { ...chunk, position: undefined }
      throw new UnavailableError('connection lost')
    }
    yield chunk
  }
}
