/** Editors over a rule store in memory, each on a node that follows it with its own limiter. */
import type { RuleContext } from '@sluice/core'
import { createLimiter, type Limiter, memoryStore } from '@sluice/limiter'
import { createMemoryLog, type MemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { type MemoryRuleStore, memoryRuleStore } from '../store/memory-rule-store.test-helper.js'
import type { RuleStore } from '../store/rule-store.js'
import { createSecretMasker } from '../../identity/masked-value.js'
import type { KeyReceiver } from '../sync/key-receiver.js'
import type { RuleCatalog } from '../sync/rule-catalog.js'
import type { RuleFollower } from '../sync/rule-follower.js'
import { followStore } from '../sync/rule-store-follower.js'
import { EditError } from './edit-errors.js'
import { createEditor, type Editor, type Meta } from './editor.js'

export const META: Meta = { by: 'ann', why: 'a test' }
export const NOW_MS = Date.UTC(2026, 0, 2, 3, 4, 5)

const NO_KEYS: KeyReceiver = { begin() {}, receive() {}, end() {}, abandon() {} }

export interface EditingNode {
  readonly editor: Editor
  readonly catalog: RuleCatalog
  readonly follower: RuleFollower
  readonly store: RuleStore
  readonly limiter: Limiter
  readonly lines: MemoryLog['lines']
  close(): Promise<void>
}

export interface NodeOptions {
  readonly store?: RuleStore
  /** Wraps the follower of the node for its editor. */
  readonly wrap?: (follower: RuleFollower) => RuleFollower
  readonly wait?: (ms: number) => Promise<unknown>
  /** What is known of this node. */
  readonly ruleContext?: RuleContext
}

export async function editingNode(options: NodeOptions = {}): Promise<EditingNode> {
  const { store = memoryRuleStore({ now: () => NOW_MS }), wrap = (follower) => follower } = options
  const { log, lines } = createMemoryLog()
  const limiter = createLimiter({ rules: [], store: memoryStore() })
  const node = { id: 'n', host: 'h', pid: 1, release: '0', startedAt: '2026-01-01T00:00:00Z' }
  const { ruleContext } = options
  const follower = await followStore({ store, limiter, keys: NO_KEYS, log, node, ruleContext })
  const editor = createEditor({
    follower: wrap(follower),
    clock: { now: () => NOW_MS },
    hideSecrets: createSecretMasker(new Uint8Array(16), ['api_key']),
    ruleContext,
    log,
    wait: options.wait ?? (() => new Promise((resolve) => setImmediate(resolve))),
  })
  const close = async () => {
    await follower.close()
    await limiter.close()
  }
  return { editor, catalog: follower.catalog, follower, store, limiter, lines, close }
}

/** Nodes of one fleet. */
export async function fleet(count: number): Promise<readonly EditingNode[]> {
  const store: MemoryRuleStore = memoryRuleStore({ now: () => NOW_MS })
  const stores = Array.from({ length: count }, () => store.connect())
  return Promise.all(stores.map((handle) => editingNode({ store: handle, wait: waitTurns })))
}

/** Waits turns of the event loop for milliseconds, so that nodes differ as their pauses do. */
async function waitTurns(ms: number): Promise<void> {
  for (let turn = 0; turn < ms; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** The error that an edit ends with. */
export async function failureOf(edit: Promise<unknown>): Promise<EditError> {
  const error: unknown = await edit.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof EditError) return error
  throw new Error(`found ${String(error)} in place of an EditError`)
}

/** Everything that an edit can change, as this node knows it. */
export function contentsOf(catalog: RuleCatalog) {
  return {
    set: catalog.set,
    rules: catalog.rules().map(({ document, candidate }) => ({
      document,
      candidate,
      overrides: [...catalog.allOverrides(document.id)]
        .map(({ id, document: override }) => ({ id, override }))
        .toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    })),
  }
}

export const RULE = { id: 'orders', by: ['user'], limits: ['10/second'] }
export const OTHER = { id: 'login', by: ['ip'], limits: ['5/minute'] }
