/** Conformance of the retention of versions. */
import { expect, test } from 'vitest'
import {
  claimIf,
  collect,
  commit,
  key,
  override,
  readAll,
  rule,
  ruleBody,
  stateNow,
  type WithStore,
} from './conformance-kit.test-helper.js'
import { recordKey } from './check-commit.js'
import { DivergedError } from './rule-store.js'

export function retentionClaims(
  withStore: WithStore,
  can: { readonly outgrow: boolean; readonly reopen: boolean },
): void {
  test(
    'a store that keeps every version reports no oldest one, and can be rolled back to the first',
    withStore(async ({ store }) => {
      for (let base = 1; base <= 5; base++) await commit(store, [rule('a', base)], { base })
      expect(store.status().keptSince).toBeUndefined()
      expect(await collect(store.changesAfter(1))).toHaveLength(5)
    }),
  )

  claimIf(can.outgrow)(
    'a store that keeps fewer versions than there were lists those, goes back to each, and refuses others',
    withStore(async ({ store, outgrow }) => {
      await commit(store, [rule('early'), override('early', 'u1'), key('k1')], { base: 1 })
      const before = await stateNow(store)
      await outgrow?.()
      const { position } = await readAll(store)
      const { keptSince = 0 } = store.status()
      expect(keptSince).toBeGreaterThan(2)
      const past = await store.history({ limit: 100_000 })
      expect(past.map(({ version }) => version)).toEqual(
        Array.from({ length: position.version - keptSince }, (_, at) => position.version - at),
      )
      expect(await store.history({ limit: 10, rule: 'early' })).toEqual([])
      const undone = await stateNow(store)
      for await (const { kind, id, before: was } of store.changesAfter(keptSince)) {
        if (was === null) undone.delete(recordKey(kind, id))
        else undone.set(recordKey(kind, id), was)
      }
      for (const [name, body] of before) expect(undone.get(name)).toEqual(body)
      for (const version of [1, 2, keptSince - 1]) {
        await expect(collect(store.changesAfter(version))).rejects.toThrow(RangeError)
      }
    }),
  )

  claimIf(can.outgrow && can.reopen)(
    'versions that went leave records, numbers and marks as they were, also after a restart',
    withStore(async ({ store, outgrow, reopen }) => {
      await commit(store, [rule('early'), key('k1')], { base: 1 })
      const early = (await readAll(store)).position
      await outgrow?.()
      const whole = await readAll(store)
      const again = await reopen?.()
      if (again === undefined) throw new Error('it cannot be opened again')
      const found = await readAll(again)
      expect(found.position).toEqual(whole.position)
      expect(new Set(found.records)).toEqual(new Set(whole.records))
      expect(await readAll(again, whole.position)).toMatchObject({ isWhole: false, records: [] })
      // It may be a position of another history.
      await expect(readAll(again, early)).rejects.toThrow(DivergedError)
      const next = await commit(again, [rule('early', 2)])
      expect(next).toMatchObject({ version: whole.position.version + 1 })
      expect((await again.history({ limit: 1, rule: 'early' }))[0]?.changes).toEqual([
        { kind: 'rule', id: 'early', before: ruleBody('early'), after: ruleBody('early', 2) },
      ])
    }),
  )
}
