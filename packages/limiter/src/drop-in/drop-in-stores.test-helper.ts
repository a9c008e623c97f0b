/** The stores that every drop-in store is tested on, with a clock that tests move. */
import { afterAll, beforeAll, describe } from 'vitest'
import { type RedisServer, startRedis } from '../../../../tools/redis/server.mjs'
import { memoryStore, type Store } from '../index.js'
import { redisStore } from '../redis/index.js'
import { type ManualClock, manualClock } from '../testing/index.js'

export interface TestStores {
  /** Begins at the present, because host libraries compare its times with the system's. */
  readonly clock: ManualClock
  /** A store whose counters all stores of one test share. */
  readonly open: () => Promise<Store>
}

/** A busy machine must not make Redis look silent. */
const DEADLINE_MS = 10_000

/** Runs the cases on memory and on a real Redis; `start` is called once by each test. */
export function describeStores(
  subject: string,
  cases: (start: () => TestStores, isShared: boolean) => void,
): void {
  describe(`${subject} in memory`, () => {
    cases(() => {
      const clock = manualClock(Date.now() * 1000)
      const store = memoryStore({ clock })
      return { clock, open: async () => store }
    }, false)
  })
  describe(`${subject} on Redis`, () => {
    let server: RedisServer
    let prefixes = 0
    const opened: Store[] = []
    beforeAll(async () => {
      server = await startRedis()
    })
    afterAll(async () => {
      await Promise.all(opened.map((store) => store.close()))
      await server.stop()
    })
    cases(() => {
      const clock = manualClock(Date.now() * 1000)
      prefixes += 1
      const prefix = `test${prefixes}`
      const open = async () => {
        const store = redisStore({ url: server.url, prefix, clock, deadlineMs: DEADLINE_MS })
        opened.push(store)
        await store.ready
        return store
      }
      return { clock, open }
    }, true)
  })
}
