/** Calls and options that must not affect other calls, on a real Redis. */
import { defineLimit, type Take } from '@sluice/core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../../../tools/redis/fault-proxy.js'
import { type RedisServer, startRedis } from '../../../../tools/redis/server.mjs'
import type { Answer } from '../store.js'
import { redisStore, type RedisStore, type RedisStoreOptions } from './index.js'

const limit = defineLimit({ algorithm: 'fixed-window', max: 1_000_000, windowMs: 3_600_000 })
const take = (n: number, partition = 0): Take => ({
  key: { hi: n, lo: n, partition },
  limit,
  amount: 1,
})

let server: RedisServer
let proxy: FaultProxy
let store: RedisStore

beforeAll(async () => {
  server = await startRedis()
  proxy = await startFaultProxy(server.port)
})
afterAll(async () => {
  await proxy.stop()
  await server.stop()
})

async function opened<Result>(
  options: Partial<RedisStoreOptions>,
  run: () => Promise<Result>,
): Promise<Result> {
  store = redisStore({ url: server.url, deadlineMs: 10_000, ...options })
  try {
    await store.ready
    return await run()
  } finally {
    await store.close()
    await proxy.heal()
  }
}

const ask = async (n: number, deadlineMs?: number): Promise<Answer | undefined> =>
  (await store.take([[take(n)]], { deadlineMs }))[0]?.[0]
const isAnswered = (answer: Answer | undefined) => typeof answer === 'object'
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

test('an observer that throws changes no answer', async () => {
  const angry = () => {
    throw new Error('observer')
  }
  const observer = { batch: angry, error: angry, problem: angry }
  await opened({ observer }, async () => {
    await server.call('SCRIPT', 'FLUSH')
    for (let i = 0; i < 12; i++) expect(isAnswered(await ask(1))).toBe(true)
    expect(store.stats().nodes[0]?.inFlight).toBe(0)
  })
})

test.each([
  ['at', () => store.give({ ...take(1), at: 1.5 })],
  ['at', () => store.charge({ ...take(1), at: -1, debt: 0 })],
  ['debt', () => store.charge({ ...take(1), at: 1, debt: Number.NaN })],
  ['amount', () => store.give({ ...take(1), amount: -1 })],
  ['atLeast', () => store.take([[{ ...take(1), atLeast: 0.5 }]])],
  ['partition', () => store.take([[take(1, 128)]])],
  ['partition', () => store.reset(take(1, -1).key)],
  ['takes of one call', () => store.take([Array.from({ length: 4097 }, (_, n) => take(n))])],
])('a bad %s is refused at once, and spoils nothing else', async (name, misuse) => {
  await opened({}, async () => {
    const other = ask(2)
    await expect(misuse()).rejects.toThrow(new RegExp(`^${name}: found `))
    expect(isAnswered(await other)).toBe(true)
  })
})

test('a limit that cannot be encoded is answered not-run, and the process goes on', async () => {
  const problems: string[] = []
  await opened({ observer: { problem: (text) => problems.push(text) } }, async () => {
    const unknown = { ...take(1), limit: { ...limit, max: 0.5 } }
    expect(await store.take([[unknown]])).toEqual([['not-run']])
    expect(problems.at(-1)).toMatch(/limit\.max: found 0\.5/)
    expect(isAnswered(await ask(2))).toBe(true)
  })
})

test('calls with a deadline that is too short to meet do not slow down other calls', async () => {
  await opened({ url: proxy.url }, async () => {
    proxy.delay(5)
    let isOver = false
    const hasty = (async () => {
      while (!isOver) {
        for (let i = 0; i < 5; i++) void ask(1, 2)
        await pause(1)
      }
    })()
    const patient = async () => {
      for (let i = 0; i < 10; i++) expect(isAnswered(await ask(2))).toBe(true)
    }
    try {
      await Promise.all([patient(), patient(), patient()])
    } finally {
      isOver = true
      await hasty
    }
  })
})

test('a rule with too short a deadline does not open the breaker', async () => {
  await opened({ url: proxy.url }, async () => {
    proxy.delay(5)
    for (let i = 0; i < 20; i++) {
      expect(isAnswered(await ask(1, 2))).toBe(false)
      await pause(25)
    }
    expect(store.stats().nodes[0]?.breakerOpened).toBe(0)
    expect(isAnswered(await ask(2))).toBe(true)
  })
})

test('a store too slow for most rules is still used by rules with a longer deadline', async () => {
  await opened({ url: proxy.url, deadlineMs: 20 }, async () => {
    proxy.delay(30)
    proxy.hold()
    const pending: Promise<unknown>[] = []
    while (store.stats().nodes[0]?.isBreakerOpen !== true) {
      pending.push(ask(1, 1000))
      await pause(25)
    }
    await Promise.all(pending)
    await proxy.heal()
    proxy.delay(30)
    while (!isAnswered(await ask(1, 1000))) await pause(25)
    expect(store.stats().nodes[0]?.isBreakerOpen).toBe(false)
  })
})

test('closing a store before it started rejects ready', async () => {
  const early = redisStore({ url: 'redis://127.0.0.1:1' })
  const waiting = expect(early.ready).rejects.toMatchObject({ code: 'STORE_FAILED' })
  await early.close()
  await waiting
  await expect(early.remote.secret).rejects.toMatchObject({ code: 'STORE_FAILED' })
})

test('calls in flight are answered when the store is closed', async () => {
  // More than 64 batches of 128, which is all that can be sent: some calls wait to be sent.
  const CALLS = 10_000
  const answers: Answer[] = []
  await opened({ url: proxy.url }, async () => {
    proxy.hold('to-client')
    for (let i = 0; i < CALLS; i++) {
      void store.take([[take(i)]]).then((groups) => answers.push(groups[0]?.[0] ?? 'not-run'))
    }
    await pause(5)
  })
  await pause(0)
  expect(answers).toHaveLength(CALLS)
  expect(new Set(answers)).toEqual(new Set(['unknown', 'not-run']))
})
