/** Conformance of reads: whole, of changes, and of stores that diverged. */
import { expect, test } from 'vitest'
import {
  candidate,
  commit,
  key,
  noRule,
  numbered,
  override,
  readAll,
  rule,
  ruleBody,
  stateNow,
  stateOf,
  type WithStore,
} from './conformance-kit.test-helper.js'
import { CHUNK_RECORDS_MAX, DivergedError, type RuleStore } from './rule-store.js'

export function readClaims(withStore: WithStore): void {
  wholeClaims(withStore)
  deltaClaims(withStore)
  lineageClaims(withStore)
  keyClaims(withStore)
}

function wholeClaims(withStore: WithStore): void {
  test(
    'without a position everything is read, in chunks of at most 1,000',
    withStore(async ({ store }) => {
      await commit(
        store,
        numbered('k', 2500).map((id) => key(id)),
      )
      await commit(store, [rule('a'), candidate('a'), override('a', 'u1')])
      const { isWhole, records, chunkSizes, position } = await readAll(store)
      expect(isWhole).toBe(true)
      expect(position.version).toBe(3)
      expect(new Set(records.map(({ kind, id }) => `${kind} ${id}`)).size).toBe(2504)
      expect(records).toHaveLength(2504)
      expect(Math.max(...chunkSizes)).toBeLessThanOrEqual(CHUNK_RECORDS_MAX)
    }),
  )

  test(
    'a commit during a read is not part of that read',
    withStore(async ({ store }) => {
      const ids = numbered('k', 3000)
      await commit(
        store,
        ids.map((id) => key(id)),
      )
      const [first, last] = [ids[0] ?? '', ids.at(-1) ?? '']
      const seen: string[] = []
      let version: number | undefined
      for await (const chunk of store.read(undefined)) {
        if (seen.length === 0) {
          const changed = [first, last].map((id) => key(id, { user: 'late' }))
          await commit(store, [...changed, key('new'), rule('new')], { base: 2 })
          await commit(store, [{ kind: 'key', id: ids[1500] ?? '', body: null }], { base: 3 })
        }
        for (const { id, body } of chunk.records) {
          seen.push(id)
          expect(body).not.toHaveProperty('user')
        }
        version = chunk.position?.version
      }
      expect(version).toBe(2)
      expect(seen.toSorted()).toEqual(['main', ...ids].toSorted())
    }),
  )
}

function deltaClaims(withStore: WithStore): void {
  test(
    'a read since a position returns only changed records, each once and as it is now',
    withStore(async ({ store }) => {
      const since = await commit(store, [rule('a'), rule('b'), rule('c'), key('k')])
      await commit(store, [rule('a', 2), rule('d')])
      const position = await commit(store, [rule('a', 3)])
      const read = await readAll(store, since)
      expect(read.isWhole).toBe(false)
      expect(read.position).toEqual(position)
      expect(read.records).toHaveLength(2)
      expect(new Set(read.records)).toEqual(
        new Set([
          { kind: 'rule', id: 'a', body: ruleBody('a', 3), version: 4 },
          { kind: 'rule', id: 'd', body: ruleBody('d'), version: 3 },
        ]),
      )
    }),
  )

  test(
    'removed records have a null body, unless they were created again',
    withStore(async ({ store }) => {
      const since = await commit(store, [rule('a'), rule('b'), override('a', 'u1')])
      await commit(store, [noRule('a'), noRule('b'), { ...override('a', 'u1'), body: null }])
      await commit(store, [rule('b', 9)])
      const { records } = await readAll(store, since)
      expect(stateOf(records)).toEqual(
        new Map<string, unknown>([
          ['rule a', null],
          ['rule b', ruleBody('b', 9)],
          ['override a/user=u1', null],
        ]),
      )
      const versions = new Map(records.map(({ id, version }) => [id, version]))
      expect([versions.get('a'), versions.get('b')]).toEqual([3, 4])
    }),
  )

  test(
    'a read without changes is one chunk without records',
    withStore(async ({ store }) => {
      const position = await commit(store, [rule('a')])
      const read = await readAll(store, position)
      expect(read).toEqual({ isWhole: false, records: [], position, chunkSizes: [0] })
    }),
  )

  test(
    'many changes come in chunks, and following changes leads to the state of a whole read',
    withStore(async ({ store }) => {
      let { position, records } = await readAll(store)
      const followed = stateOf(records)
      const follow = async () => {
        const delta = await readAll(store, position)
        expect(Math.max(...delta.chunkSizes)).toBeLessThanOrEqual(CHUNK_RECORDS_MAX)
        for (const [id, body] of stateOf(delta.records)) {
          if (body === null) followed.delete(id)
          else followed.set(id, body)
        }
        position = delta.position
        return delta
      }
      const ids = numbered('k', 2400)
      await commit(
        store,
        ids.map((id) => key(id)),
      )
      expect((await follow()).chunkSizes.length).toBeGreaterThan(2)
      await commit(
        store,
        ids.slice(0, 1200).map((id) => ({ kind: 'key', id, body: null })),
      )
      await commit(store, [rule('a'), key(ids[0] ?? '')])
      await follow()
      records = (await readAll(store)).records
      expect(followed).toEqual(stateOf(records))
    }),
  )
}

function lineageClaims(withStore: WithStore): void {
  const refuses = (store: RuleStore, since: Parameters<RuleStore['read']>[0]) =>
    expect(readAll(store, since)).rejects.toSatisfy((error) => error instanceof DivergedError)

  test(
    'a position of another store is rejected as diverged',
    withStore(async ({ store }) => {
      const second = await commit(store, [rule('a')])
      const { position } = await readAll(store)
      await refuses(store, { ...position, version: 9 })
      await refuses(store, { ...second, mark: 'ffffffffffff' })
      await refuses(store, { ...second, lineage: 'another' })
      await refuses(store, { version: 1, mark: second.mark, lineage: second.lineage })
      await refuses(store, { version: 1, mark: '', lineage: '' })
      const refused = readAll(store, { ...position, version: 9 })
      await expect(refused).rejects.toMatchObject({ store: position, message: /version/ })
    }),
  )

  test(
    'an adopted store is read whole from any older position, diverged or not',
    withStore(async ({ store }) => {
      const second = await commit(store, [rule('a')])
      const ahead = { version: 7, mark: 'abcdefabcdef', lineage: second.lineage }
      const elsewhere = { version: 7, mark: 'abcdefabcdef', lineage: 'another' }
      await refuses(store, ahead)
      const state = await stateNow(store)
      const adopted = await store.adopt(7, 'ada', 'the backup is right')
      expect(adopted.version).toBe(8)
      expect(adopted.lineage).not.toBe(second.lineage)
      for (const since of [ahead, elsewhere, second]) {
        const read = await readAll(store, since)
        expect(read.isWhole).toBe(true)
        expect(read.position).toEqual(adopted)
        expect(stateOf(read.records)).toEqual(state)
      }
      // A position ahead of the adoption has diverged.
      await refuses(store, { ...ahead, version: 8 })
      await refuses(store, { ...ahead, version: 100 })
      expect((await readAll(store, adopted)).records).toEqual([])
      const [latest] = await store.history({ limit: 1 })
      expect(latest).toMatchObject({ version: 8, by: 'ada', why: 'the backup is right' })
      expect(latest?.changeCount).toBe(0)
      expect((await commit(store, [rule('b')], { base: 8 })).version).toBe(9)
      expect((await readAll(store, adopted)).records).toHaveLength(1)
    }),
  )

  test(
    'an adoption is one version higher than the store, if that is higher than the requested one, and can be repeated',
    withStore(async ({ store }) => {
      await commit(store, [rule('a')])
      const first = await store.adopt(0, 'ada', undefined)
      expect(first.version).toBe(3)
      const again = await store.adopt(50, 'ada', undefined)
      expect(again.version).toBe(51)
      expect((await readAll(store, first)).isWhole).toBe(true)
      expect((await readAll(store)).position).toEqual(again)
    }),
  )
}

function keyClaims(withStore: WithStore): void {
  test(
    'keys are listed page by page in the order of their ids',
    withStore(async ({ store }) => {
      const ids = numbered('k', 25)
      const shuffled = ids.toSorted((a, b) => (a.at(-1) ?? '').localeCompare(b.at(-1) ?? ''))
      await commit(
        store,
        shuffled.map((id) => key(id)),
      )
      await commit(store, [key('k-000003', { name: 'changed' }), rule('a')])
      await commit(store, [{ kind: 'key', id: 'k-000007', body: null }])
      const listed: string[] = []
      for (;;) {
        const page = await store.keys({ after: listed.at(-1), limit: 10 })
        listed.push(...page.map(({ id }) => id))
        if (page.length < 10) break
      }
      expect(listed).toEqual(ids.filter((id) => id !== 'k-000007'))
      expect(await store.keys({ after: 'k-9', limit: 10 })).toEqual([])
    }),
  )

  test(
    'keys are found by their user and by their id',
    withStore(async ({ store }) => {
      const mine = ['k-b', 'k-a', 'k-c'].map((id) => key(id, { user: 'u1', plan: 'pro' }))
      await commit(store, [...mine, key('k-d', { user: 'u2' }), key('k-e')])
      const idsOf = async (query: Parameters<RuleStore['keys']>[0]) =>
        (await store.keys(query)).map(({ id }) => id)
      expect(await idsOf({ user: 'u1', limit: 10 })).toEqual(['k-a', 'k-b', 'k-c'])
      expect(await idsOf({ user: 'u1', limit: 2 })).toEqual(['k-a', 'k-b'])
      expect(await idsOf({ user: 'u1', after: 'k-b', limit: 2 })).toEqual(['k-c'])
      expect(await idsOf({ user: 'nobody', limit: 2 })).toEqual([])
      const found = await store.key('k-a')
      expect(found).toEqual({ ...mine[1], version: 2 })
      expect(await store.key('nothing')).toBeUndefined()
    }),
  )
}
