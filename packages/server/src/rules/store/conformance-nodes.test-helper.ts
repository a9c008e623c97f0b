/** Conformance of node reports, and of notifications of changes. */
import { expect, test, vi } from 'vitest'
import { claimIf, commit, readAll, rule, type WithStore } from './conformance-kit.test-helper.js'
import type { NodeReport } from './rule-store.js'

const NEWS_WITHIN = { timeout: 20_000 }

const NODE: NodeReport = {
  id: 'n1',
  host: 'host-1',
  pid: 7,
  release: '0.1.0',
  rulesVersion: 3,
  startedAt: '2026-01-01T00:00:00.000Z',
}

export function nodeClaims(
  withStore: WithStore,
  can: { readonly connect: boolean; readonly advance: boolean },
): void {
  test(
    'nodes are listed with their last report',
    withStore(async ({ store }) => {
      expect(await store.nodes()).toEqual([])
      await store.report(NODE)
      await store.report({ ...NODE, id: 'n2', problem: "rule a: found '5/fortnight'" })
      await store.report({ ...NODE, rulesVersion: 4 })
      const nodes = (await store.nodes()).toSorted((a, b) => (a.id < b.id ? -1 : 1))
      expect(nodes).toMatchObject([
        { ...NODE, rulesVersion: 4 },
        { ...NODE, id: 'n2', problem: "rule a: found '5/fortnight'" },
      ])
      expect(nodes[0]?.problem).toBeUndefined()
      for (const { seenMsAgo } of nodes) expect(seenMsAgo).toBeGreaterThanOrEqual(0)
    }),
  )

  claimIf(can.advance)(
    'nodes that were silent for a minute are not listed',
    withStore(async ({ store, advance }) => {
      if (advance === undefined) throw new Error('no advance')
      await store.report(NODE)
      await advance(40_000)
      await store.report({ ...NODE, id: 'n2' })
      const ages = new Map((await store.nodes()).map(({ id, seenMsAgo }) => [id, seenMsAgo]))
      expect(ages.size).toBe(2)
      expect(ages.get('n1')).toBeGreaterThanOrEqual(40_000)
      expect(ages.get('n2')).toBeLessThan(40_000)
      await advance(21_000)
      expect((await store.nodes()).map(({ id }) => id)).toEqual(['n2'])
    }),
  )

  claimIf(can.connect)(
    'news of a commit and of an adoption comes to every other handle, until it is ended',
    withStore(async ({ store, connect }) => {
      const others = await Promise.all([connect?.(), connect?.()])
      const listeners = [vi.fn(), vi.fn(), vi.fn()] as const
      const ends = [...others, others[0]].map((other, index) =>
        other?.onChange(listeners[index] ?? vi.fn()),
      )
      // Notifications of a handle that has just begun to listen do not count.
      await vi.waitFor(
        () => expect(others.every((o) => o?.status().news === 'push')).toBe(true),
        NEWS_WITHIN,
      )
      for (const listener of listeners) listener.mockClear()
      const position = await commit(store, [rule('a')])
      await vi.waitFor(() => {
        for (const listener of listeners) expect(listener).toHaveBeenCalled()
      }, NEWS_WITHIN)
      for (const other of others) {
        expect(other && (await readAll(other)).position).toEqual(position)
      }
      ends[2]?.()
      for (const listener of listeners) listener.mockClear()
      await store.adopt(0, 'ada', undefined)
      await vi.waitFor(() => {
        expect(listeners[0]).toHaveBeenCalled()
        expect(listeners[1]).toHaveBeenCalled()
      }, NEWS_WITHIN)
      expect(listeners[2]).not.toHaveBeenCalled()
    }),
  )

  test(
    'a store that answers reports that it is connected',
    withStore(async ({ store }) => {
      await readAll(store)
      expect(store.status()).toMatchObject({ isConnected: true, problem: undefined })
      expect(store.name).not.toBe('')
    }),
  )
}
