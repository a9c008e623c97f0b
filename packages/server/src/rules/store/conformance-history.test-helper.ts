/** Conformance of the history: the list of versions, and the changes that undo them. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { recordKey } from './check-commit.js'
import {
  candidate,
  collect,
  commit,
  key,
  noRule,
  numbered,
  override,
  readAll,
  rule,
  ruleBody,
  type State,
  stateNow,
  type WithStore,
} from './conformance-kit.test-helper.js'
import type { Change } from './records.js'
import type { PastChange, RuleStore } from './rule-store.js'

export function historyClaims(withStore: WithStore): void {
  versionClaims(withStore)
  ruleClaims(withStore)
  undoClaims(withStore)
}

const versionsOf = async (store: RuleStore, query: Parameters<RuleStore['history']>[0]) =>
  (await store.history(query)).map(({ version }) => version)

function versionClaims(withStore: WithStore): void {
  test(
    'the history lists versions newest first: who, when, why, from what to what',
    withStore(async ({ store }) => {
      await commit(store, [rule('a')], { by: 'ada', why: 'too many orders' })
      await commit(store, [rule('a', 2), noRule('b')], { by: 'ben' })
      const [newest, older, first] = await store.history({ limit: 10 })
      expect(newest).toMatchObject({ version: 3, by: 'ben', why: undefined, changeCount: 2 })
      expect(new Set(newest?.changes)).toEqual(
        new Set([
          { kind: 'rule', id: 'a', before: ruleBody('a'), after: ruleBody('a', 2) },
          { kind: 'rule', id: 'b', before: null, after: null },
        ]),
      )
      expect(older).toMatchObject({ version: 2, by: 'ada', why: 'too many orders' })
      expect(older?.changes).toEqual([
        { kind: 'rule', id: 'a', before: null, after: ruleBody('a') },
      ])
      expect(first?.version).toBe(1)
      expect(older?.at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    }),
  )

  test(
    'the history is paged by version',
    withStore(async ({ store }) => {
      for (let base = 1; base <= 6; base++) await commit(store, [rule('a', base)], { base })
      expect(await versionsOf(store, { limit: 3 })).toEqual([7, 6, 5])
      expect(await versionsOf(store, { before: 5, limit: 3 })).toEqual([4, 3, 2])
      expect(await versionsOf(store, { before: 2, limit: 3 })).toEqual([1])
      expect(await versionsOf(store, { before: 1, limit: 3 })).toEqual([])
      expect(await versionsOf(store, { before: 100, limit: 1 })).toEqual([7])
    }),
  )

  test(
    'the history lists the first hundred changes of a version, and counts all of them',
    withStore(async ({ store }) => {
      const ids = numbered('k', 250)
      const changes = [...ids.map((id) => key(id)), rule('a')]
      await commit(store, changes)
      const [latest] = await store.history({ limit: 1 })
      expect(latest?.changeCount).toBe(251)
      expect(new Set(latest?.changes.map(({ id }) => id)).size).toBe(100)
      const [ofRule] = await store.history({ rule: 'a', limit: 1 })
      expect(ofRule).toMatchObject({ changeCount: 1, changes: [{ kind: 'rule', id: 'a' }] })
    }),
  )
}

function ruleClaims(withStore: WithStore): void {
  test(
    'the history of a rule has the changes of the rule, its candidate and its overrides only',
    withStore(async ({ store }) => {
      await commit(store, [rule('a'), rule('ab')], { base: 1 })
      await commit(store, [rule('ab', 2)], { base: 2 })
      await commit(store, [candidate('a'), rule('ab', 3)], { base: 3 })
      await commit(store, [key('a')], { base: 4 })
      await commit(store, [override('a', 'u1'), override('ab', 'u1')], { base: 5 })
      await commit(store, [override('ab', 'a')], { base: 6 })
      await commit(store, [{ ...override('a', 'u1'), body: null }, noRule('a')], { base: 7 })
      const past = await store.history({ rule: 'a', limit: 10 })
      expect(past.map(({ version }) => version)).toEqual([8, 6, 4, 2])
      expect(past.map(({ changeCount }) => changeCount)).toEqual([2, 1, 1, 1])
      expect(past.flatMap(({ changes }) => changes.map(({ id }) => id)).toSorted()).toEqual([
        'a',
        'a',
        'a',
        'a/user=u1',
        'a/user=u1',
      ])
      expect(await versionsOf(store, { rule: 'a', before: 6, limit: 1 })).toEqual([4])
      expect(await versionsOf(store, { rule: 'none', limit: 9 })).toEqual([])
      const changes = await collect(store.changesAfter(4, 'a'))
      expect(changes.slice(0, 2).every(({ after }) => after === null)).toBe(true)
      expect(changes.slice(2)).toEqual([
        { kind: 'override', id: 'a/user=u1', before: null, after: override('a', 'u1').body },
      ])
    }),
  )
}

function undoClaims(withStore: WithStore): void {
  test(
    'changesAfter accepts a version that exists, and no other',
    withStore(async ({ store }) => {
      await commit(store, [rule('a')])
      await store.adopt(9, 'ada', undefined)
      await commit(store, [rule('a', 2)])
      expect(await collect(store.changesAfter(11))).toEqual([])
      const last: PastChange = {
        kind: 'rule',
        id: 'a',
        before: ruleBody('a'),
        after: ruleBody('a', 2),
      }
      expect(await collect(store.changesAfter(10))).toEqual([last])
      expect(await collect(store.changesAfter(2))).toEqual([last])
      expect(await collect(store.changesAfter(1))).toHaveLength(2)
      for (const version of [0, 3, 9, 12, -1, 1.5]) {
        await expect(collect(store.changesAfter(version))).rejects.toThrow(RangeError)
      }
    }),
  )

  test(
    'changesAfter returns any number of changes',
    withStore(async ({ store }) => {
      const ids = numbered('k', 3000)
      await commit(
        store,
        ids.map((id) => key(id)),
      )
      const changes = await collect(store.changesAfter(1))
      expect(new Set(changes.map(({ id }) => id)).size).toBe(3000)
    }),
  )

  test(
    'undoing every change after a version restores that version',
    withStore(async ({ store }) => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(someChange, { minLength: 1, maxLength: 4 }), {
            minLength: 1,
            maxLength: 6,
          }),
          async (commits) => {
            const { position } = await readAll(store)
            const states: State[] = [await stateNow(store)]
            for (const changes of commits) {
              await commit(store, [
                ...new Map(changes.map((c) => [recordKey(c.kind, c.id), c])).values(),
              ])
              states.push(await stateNow(store))
            }
            const last = states.at(-1) ?? new Map()
            for (const [index, state] of states.entries()) {
              const undone = new Map(last)
              for await (const { kind, id, before } of store.changesAfter(
                position.version + index,
              )) {
                if (before === null) undone.delete(recordKey(kind, id))
                else undone.set(recordKey(kind, id), before)
              }
              expect(undone).toEqual(state)
            }
          },
        ),
        { numRuns: 12 },
      )
    }),
  )
}

const someChange: fc.Arbitrary<Change> = fc
  .record({
    id: fc.constantFrom('a', 'b', 'c'),
    what: fc.constantFrom('rule', 'no-rule', 'candidate', 'override', 'key'),
    n: fc.integer({ min: 1, max: 9 }),
  })
  .map(({ id, what, n }) => {
    if (what === 'rule') return rule(id, n)
    if (what === 'no-rule') return noRule(id)
    if (what === 'candidate') return candidate(id)
    return what === 'override' ? override(id, `u${n}`) : key(id, { user: `u${n}` })
  })
