import { expect, test } from 'vitest'
import { commit, readAll, rule } from './conformance-kit.test-helper.js'
import { memoryRuleStore } from './memory-rule-store.test-helper.js'
import { describeRuleStore } from './rule-store.conformance.test-helper.js'

describeRuleStore(
  'memory',
  async () => {
    let nowMs = Date.UTC(2026, 0, 1)
    const store = memoryRuleStore({ now: () => nowMs })
    return {
      store,
      connect: () => Promise.resolve(store.connect()),
      advance: async (ms) => {
        nowMs += ms
      },
      close: () => store.close(),
    }
  },
  { reopen: false },
)

test('a position older than the kept changes gets a whole read', async () => {
  const store = memoryRuleStore({ recentChangesMax: 4 })
  const second = await commit(store, [rule('a')])
  const third = await commit(store, [rule('b')])
  await commit(store, [rule('c')])
  expect((await readAll(store, second)).isWhole).toBe(false)
  await commit(store, [rule('d')])
  expect((await readAll(store, second)).isWhole).toBe(true)
  expect((await readAll(store, third)).isWhole).toBe(false)
})
