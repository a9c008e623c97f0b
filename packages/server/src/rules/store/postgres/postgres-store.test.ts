/** The rule store in Postgres passes the conformance suite. */
import { afterAll, beforeAll } from 'vitest'
import { type PostgresServer, startPostgres } from '../../../../../../tools/postgres/server.js'
import { describeRuleStore } from '../rule-store.conformance.test-helper.js'
import type { RuleStore } from '../rule-store.js'
import { openStore, QUICK, START_MS_MAX } from './postgres.test-helper.js'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, START_MS_MAX)
afterAll(() => server.stop())

describeRuleStore('postgres', async () => {
  const url = await server.createDatabase()
  const opened = new Set<RuleStore>()
  const open = async () => {
    const { store } = await openStore(url, { intervals: QUICK })
    opened.add(store)
    return store
  }
  const close = async () => {
    await Promise.all([...opened].map((store) => store.close()))
    opened.clear()
  }
  return {
    store: await open(),
    connect: open,
    reopen: async () => {
      await close()
      return open()
    },
    advance: async (ms) => {
      await server.psql(
        `update sluice.nodes set seen_at = seen_at - interval '${ms} milliseconds'`,
        url,
      )
    },
    close,
  }
})
