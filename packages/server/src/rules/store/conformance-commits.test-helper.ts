/** Conformance of commits: what they change, and what is refused. */
import { expect, test } from 'vitest'
import {
  candidate,
  claimIf,
  commit,
  key,
  noRule,
  numbered,
  readAll,
  rule,
  ruleBody,
  stateNow,
  type WithStore,
} from './conformance-kit.test-helper.js'
import type { Change } from './records.js'
import { COMMIT_CHANGES_MAX, ConflictError, type RuleStore } from './rule-store.js'

interface Abilities {
  readonly connect: boolean
  readonly reopen: boolean
}

export function commitClaims(withStore: WithStore, can: Abilities): void {
  versionClaims(withStore)
  refusalClaims(withStore)
  writerClaims(withStore, can)
}

function versionClaims(withStore: WithStore): void {
  test(
    'a new store is at version 1 with a secret of its own',
    withStore(async ({ store }) => {
      const { records, position } = await readAll(store)
      expect(position.version).toBe(1)
      expect(position.mark).not.toBe('')
      expect(position.lineage).not.toBe('')
      expect(records).toEqual([
        {
          kind: 'secret',
          id: 'main',
          body: { secret: expect.stringMatching(/^[0-9a-f]{64}$/) },
          version: 1,
        },
      ])
      const [made] = await store.history({ limit: 10 })
      expect(made).toMatchObject({ version: 1, by: 'sluice', why: 'the store was made' })
    }),
  )

  test(
    'every commit is the next version, and records have the version of their last change',
    withStore(async ({ store }) => {
      const second = await commit(store, [rule('a'), rule('b')], { base: 1 })
      const third = await commit(store, [rule('a', 2), candidate('a')], { base: 2 })
      expect([second.version, third.version]).toEqual([2, 3])
      expect(third.mark).not.toBe(second.mark)
      expect(third.lineage).toBe(second.lineage)
      const { records, position } = await readAll(store)
      expect(position).toEqual(third)
      const versions = new Map(records.map(({ kind, id, version }) => [`${kind} ${id}`, version]))
      expect(versions).toEqual(
        new Map([
          ['secret main', 1],
          ['rule a', 3],
          ['rule b', 2],
          ['candidate a', 3],
        ]),
      )
    }),
  )

  test(
    'a removed record is gone, and can be created again',
    withStore(async ({ store }) => {
      await commit(store, [rule('a')])
      await commit(store, [noRule('a')])
      expect((await stateNow(store)).has('rule a')).toBe(false)
      await commit(store, [rule('a', 3)])
      expect((await stateNow(store)).get('rule a')).toEqual(ruleBody('a', 3))
    }),
  )

  test(
    'a change to an equal body still changes the version of the record',
    withStore(async ({ store }) => {
      await commit(store, [rule('a')])
      const again = await commit(store, [rule('a'), noRule('none')])
      expect(again.version).toBe(3)
      const { records } = await readAll(store)
      expect(records.find(({ id }) => id === 'a')?.version).toBe(3)
    }),
  )

  test(
    'a committed body does not change with the object of the caller',
    withStore(async ({ store }) => {
      const limits = ['1/second']
      await commit(store, [{ kind: 'candidate', id: 'a', body: { limits } }])
      limits.push('2/second')
      expect((await stateNow(store)).get('candidate a')).toEqual({ limits: ['1/second'] })
    }),
  )

  test(
    'one commit takes 20,000 changes',
    withStore(async ({ store }) => {
      const changes = numbered('k', COMMIT_CHANGES_MAX).map((id) => key(id))
      const { version } = await commit(store, changes)
      expect(version).toBe(2)
      const { records, chunkSizes } = await readAll(store)
      expect(records).toHaveLength(COMMIT_CHANGES_MAX + 1)
      expect(Math.max(...chunkSizes)).toBeLessThanOrEqual(1000)
      const [latest] = await store.history({ limit: 1 })
      expect(latest?.changeCount).toBe(COMMIT_CHANGES_MAX)
      expect(latest?.changes).toHaveLength(100)
    }),
  )
}

function refusalClaims(withStore: WithStore): void {
  test(
    'a commit based on an older or future version is refused with the present version',
    withStore(async ({ store }) => {
      await commit(store, [rule('a')], { base: 1 })
      const state = await stateNow(store)
      for (const base of [0, 1, 3]) {
        const refused = commit(store, [rule('b')], { base })
        await expect(refused).rejects.toSatisfy(
          (error) => error instanceof ConflictError && error.version === 2,
        )
      }
      expect(await stateNow(store)).toEqual(state)
      expect((await readAll(store)).position.version).toBe(2)
    }),
  )

  test(
    'a commit that cannot be stored as a whole is not stored at all',
    withStore(async ({ store }) => {
      const tooMany = numbered('k', COMMIT_CHANGES_MAX + 1).map((id) => key(id))
      const bad: readonly (readonly Change[])[] = [
        [],
        [rule('a'), rule('b'), rule('a', 2)],
        [rule('a'), rule('')],
        [rule('a'), rule('x'.repeat(1025))],
        tooMany,
      ]
      for (const changes of bad) {
        await expect(commit(store, changes, { base: 1 })).rejects.toThrow(RangeError)
      }
      const { records, position } = await readAll(store)
      expect([position.version, records.length]).toEqual([1, 1])
    }),
  )
}

function writerClaims(withStore: WithStore, can: Abilities): void {
  test(
    'of several commits on the same version one succeeds, and the others get the new version',
    withStore(async ({ store, connect }) => {
      const others = await Promise.all([1, 2, 3].map(async () => (await connect?.()) ?? store))
      const writers: readonly RuleStore[] = [store, ...others]
      const settled = await Promise.allSettled(
        writers.map((writer, index) => commit(writer, [rule(`by-${index}`)], { base: 1 })),
      )
      const won = settled.filter(({ status }) => status === 'fulfilled')
      expect(won).toHaveLength(1)
      const lost = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
      expect(lost).toEqual(lost.map(() => new ConflictError(2)))
      const { position, records } = await readAll(store)
      expect([position.version, records.length]).toEqual([2, 2])
    }),
  )

  claimIf(can.reopen)(
    'everything is there when the store is opened again',
    withStore(async ({ store, reopen }) => {
      if (reopen === undefined) throw new Error('no reopen')
      await commit(store, [rule('a'), key('k1', { user: 'u1' })], { why: 'the first' })
      await commit(store, [rule('b'), candidate('a')])
      await commit(store, [noRule('b'), key('k2')])
      const before = await readAll(store)
      const history = await store.history({ limit: 100 })
      const again = await reopen()
      const after = await readAll(again)
      expect(after.position).toEqual(before.position)
      expect(new Set(after.records)).toEqual(new Set(before.records))
      expect(await again.history({ limit: 100 })).toEqual(history)
      expect((await again.keys({ limit: 10 })).map(({ id }) => id)).toEqual(['k1', 'k2'])
      expect((await readAll(again, before.position)).records).toEqual([])
      expect((await commit(again, [rule('c')], { base: 4 })).version).toBe(5)
    }),
  )
}
