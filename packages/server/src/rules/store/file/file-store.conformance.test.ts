import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { commit, readAll, rule } from '../conformance-kit.test-helper.js'
import { describeRuleStore } from '../rule-store.conformance.test-helper.js'
import type { RuleStore } from '../rule-store.js'
import { openFileStore } from './file-store.js'
import { makeRulesFolder } from './file-store.test-helper.js'

describeRuleStore(
  'files',
  async () => {
    const folder = makeRulesFolder()
    let nowMs = Date.UTC(2026, 0, 1)
    const history = { versions: 100 }
    const options = { folder, release: '0.1.0', history, garbageBytesMin: 1 }
    const open = () => openFileStore({ ...options, clock: { now: () => nowMs } })
    let store: RuleStore = await open()
    return {
      store,
      reopen: async () => {
        await store.close()
        store = await open()
        return store
      },
      advance: async (ms) => {
        nowMs += ms
      },
      outgrow: async () => {
        let base = (await readAll(store)).position.version
        while (store.status().keptSince === undefined) {
          base = (await commit(store, [rule('a', base)], { base })).version
        }
      },
      close: async () => {
        await store.close()
        rmSync(dirname(folder), { recursive: true, force: true })
      },
    }
  },
  { connect: false, outgrow: true },
)
