/** Every entry point that returns a decision reports who made it, and the age of its data. */
import type { LimiterOptions } from '@sluice/limiter'
import { afterAll, expect, test } from 'vitest'
import { type ScriptedStore, scripted } from '../../../../limiter/src/scripted-store.test-helper.js'
import { closeAfterTests, startApi } from './decision-api.test-helper.js'

closeAfterTests()

const closing: (() => Promise<void>)[] = []
afterAll(() => Promise.all(closing.map((close) => close())))

const u1 = { attributes: { user: 'u1' } }

/** An API whose counters are in a remote store. */
async function startWithRemoteStore(rules: LimiterOptions['rules'], denyCacheMs = 0) {
  const { limiter, store } = await scripted(rules, { denyCacheMs })
  closing.push(() => limiter.close())
  const api = await startApi({ limiter: () => limiter })
  return { api, store, limiter }
}

/**
 * Makes calls, a millisecond apart, until one is not decided by the store. Returns that decision,
 * and the number of calls including it.
 */
async function untilDecidedLocally(
  api: Awaited<ReturnType<typeof startApi>>,
  store: ScriptedStore,
) {
  for (let calls = 1; calls <= 200; calls++) {
    const { body } = await api.post('/v1/check', u1)
    const decision = body as Readonly<Record<string, unknown>>
    if (decision['source'] !== 'store') return { decision, calls }
    expect(decision).not.toHaveProperty('staleMs')
    store.clock.advance(1)
  }
  throw new Error('every call was decided by the store')
}

test('a refusal from the deny cache reports for how long it holds', async () => {
  const rules = [{ id: 'r', by: ['user'], limits: ['1/minute'] }]
  const { api, store } = await startWithRemoteStore(rules, 1000)
  for (let i = 0; i < 2; i++) {
    const { body } = await api.post('/v1/check', u1)
    expect(body).toMatchObject({ source: 'store' })
    expect(body).not.toHaveProperty('staleMs')
  }
  store.clock.advance(300)
  const { body } = await api.post('/v1/check', u1)
  expect(body).toMatchObject({ allowed: false, source: 'deny-cache', staleMs: 300 })
})

test('a call that a lease pays for reports so, and how long ago the lease was drawn', async () => {
  const rules = [{ id: 'r', by: ['user'], limits: ['1000/minute'], coordination: 'leased' }]
  const { api, store, limiter } = await startWithRemoteStore(rules)
  const { decision: first } = await untilDecidedLocally(api, store)
  expect(first).toMatchObject({ allowed: true, source: 'lease', rule: 'r', limit: 1000 })
  store.clock.advance(12)
  const list = await api.post('/v1/check', [u1])
  expect(list.body).toMatchObject([{ source: 'lease', staleMs: Number(first['staleMs']) + 12 }])
  expect(limiter.stats?.coordination.get('r')).toMatchObject({ overAdmitted: 0, lost: 0 })
})

test('a decision that a node made locally is marked so by check, peek and explain', async () => {
  const rules = [{ id: 'r', by: ['user'], limits: ['1000/minute'], coordination: 'local' }]
  const { api, store } = await startWithRemoteStore(rules)
  const { decision, calls } = await untilDecidedLocally(api, store)
  expect(decision).toMatchObject({ allowed: true, source: 'local' })
  // The node reports by a real timer. Without an answer it learns nothing new meanwhile.
  store.isHeld = true
  closing.push(async () => store.release())
  store.clock.advance(7)
  const checked = (await api.post('/v1/check', u1)).body as { readonly staleMs: number }
  expect(checked.staleMs).toBeGreaterThanOrEqual(7)
  const { staleMs } = checked
  expect((await api.post('/v1/peek', u1)).body).toMatchObject({ source: 'local', staleMs })
  const explain = [{ rule: 'r', limits: [{ staleMs, remaining: 1000 - calls - 1 }] }]
  const explained = (await api.post('/v1/explain', u1)).body
  expect(explained).toMatchObject({ source: 'local', staleMs, explain })
})
