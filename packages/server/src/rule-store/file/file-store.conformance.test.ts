import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { describeRuleStore } from '../rule-store.conformance.test-helper.js'
import type { RuleStore } from '../rule-store.js'
import { openFileStore } from './file-store.js'
import { makeRulesFolder } from './file-store.test-helper.js'

describeRuleStore(
  'files',
  async () => {
    const folder = makeRulesFolder()
    let nowMs = Date.UTC(2026, 0, 1)
    const open = () => openFileStore({ folder, clock: { now: () => nowMs }, release: '0.1.0' })
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
      close: async () => {
        await store.close()
        rmSync(dirname(folder), { recursive: true, force: true })
      },
    }
  },
  { connect: false },
)
