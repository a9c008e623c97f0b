import { expect, test } from 'vitest'
import { memoryRuleStore } from '../memory-rule-store.test-helper.js'
import {
  CHUNK_RECORDS_MAX,
  ConflictError,
  type RuleStore,
  UnavailableError,
} from '../rule-store.js'
import type { Change } from '../records.js'
import { hostRuleStore } from './ipc-host.js'
import { connectIpcStore } from './ipc-store.js'
import { channelPair } from './channel-pair.test-helper.js'

const KEYS: readonly Change[] = Array.from({ length: 2500 }, (_, i) => ({
  kind: 'key',
  id: `k_${String(i).padStart(5, '0')}`,
  body: { hash: 'a'.repeat(64), state: 'active', user: `u${i % 7}`, createdAt: 'now' },
}))

async function connected(isKeeper = false) {
  const held = memoryRuleStore()
  const { near, far } = channelPair()
  const unhost = hostRuleStore(held, far, isKeeper)
  const store = await connectIpcStore(near, 500)
  return { held, store, unhost, near }
}

async function recordsOf(store: RuleStore) {
  const chunks = []
  for await (const chunk of store.read(undefined)) chunks.push(chunk)
  return chunks
}

test('a worker reads the store of the host, chunk by chunk and with its position', async () => {
  const { held, store } = await connected()
  await held.commit({ base: 1, by: 'ann', why: undefined, changes: KEYS })
  const own = await recordsOf(store)
  expect(own).toEqual(JSON.parse(JSON.stringify(await recordsOf(held))))
  expect(own.length).toBeGreaterThan(2)
  expect(Math.max(...own.map(({ records }) => records.length))).toBe(CHUNK_RECORDS_MAX)
})

test('a commit of a worker reaches the store, and an outdated one gets the present version', async () => {
  const { held, store } = await connected()
  const [key, other] = KEYS
  if (key === undefined || other === undefined) throw new Error('no keys')
  const position = await store.commit({ base: 1, by: 'ann', why: 'a test', changes: [key] })
  expect(position.version).toBe(2)
  expect(await held.key(key.id)).toMatchObject({ version: 2 })
  const late = store.commit({ base: 1, by: 'bob', why: undefined, changes: [other] })
  await expect(late).rejects.toThrow(ConflictError)
  await expect(late).rejects.toMatchObject({ version: 2 })
})

test('the history arrives in order, however long it is', async () => {
  const { held, store } = await connected()
  await held.commit({ base: 1, by: 'ann', why: undefined, changes: KEYS })
  const ids: string[] = []
  for await (const { id } of store.changesAfter(1)) ids.push(id)
  expect(ids).toEqual(KEYS.map(({ id }) => id).toReversed())
  await expect(store.changesAfter(99)[Symbol.asyncIterator]().next()).rejects.toThrow(RangeError)
})

test('every worker is notified of changes', async () => {
  const { held, store } = await connected()
  const changed = new Promise<void>((resolve) => void store.onChange(resolve))
  await held.commit({ base: 1, by: 'ann', why: undefined, changes: KEYS.slice(0, 1) })
  await changed
  expect((await store.history({ limit: 1 }))[0]).toMatchObject({ version: 2, by: 'ann' })
})

test('a worker knows whether it writes the last known good rules', async () => {
  expect((await connected(true)).store.isKeeper).toBe(true)
  expect((await connected(false)).store.isKeeper).toBe(false)
})

test('a host that does not respond makes the store unavailable, and a commit uncertain', async () => {
  const { store, unhost } = await connected()
  unhost()
  await expect(store.nodes()).rejects.toThrow(UnavailableError)
  const commit = store.commit({ base: 1, by: 'ann', why: undefined, changes: KEYS.slice(0, 1) })
  await expect(commit).rejects.toMatchObject({ isUncertain: true })
})

test('closing the store rejects pending requests', async () => {
  const { store, unhost } = await connected()
  unhost()
  const nodes = store.nodes()
  await store.close()
  await expect(nodes).rejects.toThrow('closed')
})
