/** Nodes that follow a rule store in memory, and assertions on them. */
import { createLimiter, type Limiter } from '@sluice/limiter'
import { createMemoryLog, type MemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { type MemoryRuleStore, memoryRuleStore } from '../store/memory-rule-store.test-helper.js'
import type { Change, StoredRecord } from '../store/records.js'
import type { RuleStore } from '../store/rule-store.js'
import { type FlakyStore, flakyStore } from './flaky-store.test-helper.js'
import type { KeyReceiver } from './key-receiver.js'
import type { LastKnownGood } from './last-known-good/last-known-good.js'
import {
  type ManualScheduler,
  manualScheduler,
  until,
} from '../../lib/manual-scheduler.test-helper.js'
import type { RuleFollower } from './rule-follower.js'
import { followStore } from './rule-store-follower.js'

/** Received keys by id. */
export class TestKeyReceiver implements KeyReceiver {
  inUse: ReadonlyMap<string, StoredRecord> = new Map()
  secret: string | undefined
  #next: Map<string, StoredRecord> | undefined

  begin(): void {
    this.#next = new Map()
  }

  receive(records: readonly StoredRecord[]): void {
    const keys = this.#next ?? new Map(this.inUse)
    for (const record of records) {
      if (record.body === null) keys.delete(record.id)
      else keys.set(record.id, record)
    }
    if (this.#next === undefined) this.inUse = keys
  }

  end(secret: string | undefined): void {
    this.inUse = this.#next ?? this.inUse
    this.secret = secret
    this.#next = undefined
  }

  abandon(): void {
    this.#next = undefined
  }
}

export interface TestNode extends MemoryLog {
  readonly follower: RuleFollower
  readonly limiter: Limiter
  readonly store: FlakyStore
  readonly scheduler: ManualScheduler
  readonly keys: TestKeyReceiver
}

export interface NodeOptions {
  readonly store?: FlakyStore
  readonly lastKnownGood?: LastKnownGood
  readonly scheduler?: ManualScheduler
}

const opened: (RuleFollower | Limiter)[] = []

/** Starts a node; resolves when it has started, whatever it found. */
export async function startNode(target: MemoryRuleStore, options: NodeOptions = {}) {
  const {
    store = flakyStore(target.connect()),
    scheduler = manualScheduler(),
    lastKnownGood,
  } = options
  const memory = createMemoryLog()
  const limiter = createLimiter({ rules: [] })
  const keys = new TestKeyReceiver()
  const node = { id: 'n', host: 'h', pid: 1, release: '1', startedAt: '2026-01-01T00:00:00.000Z' }
  const starting = followStore({
    store,
    limiter,
    keys,
    log: memory.log,
    node,
    lastKnownGood,
    scheduler,
  })
  let follower: RuleFollower | undefined
  void starting.then((started) => (follower = started))
  await until(() => follower !== undefined || store.isWaiting)
  while (follower === undefined) await scheduler.advance(100)
  opened.push(follower, limiter)
  return Object.assign(memory, { follower, limiter, store, scheduler, keys }) satisfies TestNode
}

export async function closeNodes(): Promise<void> {
  for (const one of opened.splice(0)) await one.close()
}

export function newStore(): MemoryRuleStore {
  return memoryRuleStore()
}

/** As the next version of the store. */
export async function commit(store: RuleStore, ...changes: readonly Change[]): Promise<number> {
  const [last] = await store.history({ limit: 1 })
  const base = last?.version ?? 0
  return (await store.commit({ base, by: 'test', why: undefined, changes })).version
}

export const ruleOf = (id: string, fields: object = {}): Change => ({
  kind: 'rule',
  id,
  body: { id, by: ['user'], limits: ['10/second'], ...fields },
})

export const setOf = (...order: readonly string[]): Change => ({
  kind: 'set',
  id: 'main',
  body: { routes: [], strictPaths: false, order },
})

export const overrideOf = (rule: string, user: string, max: number): Change => ({
  kind: 'override',
  id: `${rule}/user=${user}`,
  body: { caller: { user }, limits: [`${max}/second`] },
})

export const keyOf = (id: string, plan: string): Change => ({
  kind: 'key',
  id,
  body: {
    hash: Buffer.from(id).toString('hex').padStart(64, '0'),
    plan,
    state: 'active',
    createdAt: '',
  },
})

/** Returns the tightest limit of a user; undefined if no rule applies. */
export async function limitOf(node: TestNode, user: string, more: object = {}) {
  const decision = await node.limiter.peek({ attributes: { user, ...more } })
  return decision.reason === 'unmatched' ? undefined : decision.limit
}

export const messagesOf = (node: TestNode, level: string) =>
  node.lines.filter((line) => line['level'] === level).map(({ msg }) => msg)
