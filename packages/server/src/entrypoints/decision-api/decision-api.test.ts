import { describe, expect, test } from 'vitest'
import { API_TOKEN, closeAfterTests, ownHeaders, startApi } from './decision-api.test-helper.js'
import { ROUTES } from './routes.js'

closeAfterTests()

const u1 = { attributes: { user: 'u1' } }

describe('POST /v1/check', () => {
  test('answers an admission with the decision and exactly its headers', async () => {
    const api = await startApi()
    const answer = await api.post('/v1/check', { ...u1, cost: 1 })
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({
      allowed: true,
      reason: 'within',
      rule: 'per-user',
      limitName: 'token-bucket-1m',
      limit: 2,
      remaining: 1,
      resetAfterMs: 30_000,
      retryAfterMs: 0,
      delayMs: 0,
      shadow: [],
      source: 'store',
    })
    expect(ownHeaders(answer)).toEqual({
      'ratelimit-policy': '"per-user";q=2;w=60',
      ratelimit: '"per-user";r=1;t=30',
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '1',
      'x-ratelimit-reset': '1767225630',
      'content-type': 'application/json',
      'content-length': String(answer.text.length),
    })
  })

  test('answers a refusal with 200 too, and reports when to retry', async () => {
    const api = await startApi()
    const answer = await api
      .post('/v1/check', { ...u1, cost: 2 })
      .then(() => api.post('/v1/check', u1))
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ allowed: false, reason: 'over', retryAfterMs: 30_000 })
    expect(ownHeaders(answer)).toEqual({
      'ratelimit-policy': '"per-user";q=2;w=60',
      ratelimit: '"per-user";r=0;t=30',
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': '1767225660',
      'retry-after': '30',
      'cache-control': 'no-store',
      'content-type': 'application/json',
      'content-length': String(answer.text.length),
    })
  })

  test('answers a call that no rule matches without rate limit headers', async () => {
    const api = await startApi()
    const answer = await api.post('/v1/check', { attributes: {} })
    expect(answer.body).toMatchObject({ allowed: true, reason: 'unmatched', rule: null })
    expect(Object.keys(ownHeaders(answer)).sort()).toEqual(['content-length', 'content-type'])
  })

  test('refuses a cost above the limit permanently', async () => {
    const api = await startApi()
    const answer = await api.post('/v1/check', { ...u1, cost: 3 })
    expect(answer.body).toMatchObject({ reason: 'cost_exceeds_limit', retryAfterMs: null })
    expect(answer.headers).not.toHaveProperty('retry-after')
  })

  test('admits a cost of 0 and writes nothing', async () => {
    const api = await startApi()
    await api.post('/v1/check', { ...u1, cost: 2 })
    const answer = await api.post('/v1/check', { ...u1, cost: 0 })
    expect(answer.body).toMatchObject({ allowed: true, remaining: 0 })
  })

  test('refuses a call that cannot wait instead of delaying it, and charges nothing', async () => {
    const rules = [
      { id: 'paced', by: [], limits: [{ algorithm: 'leaky-bucket', max: 1, window: '1s' }] },
    ]
    const api = await startApi({ rules })
    const check = (canWait?: boolean) => api.post('/v1/check', { attributes: {}, canWait })
    await check()
    expect((await check(false)).body).toMatchObject({ allowed: false, reason: 'over' })
    expect((await check()).body).toMatchObject({ allowed: true, delayMs: 1000 })
  })

  test('passes calls through gates, alone and in a list, and charges nothing', async () => {
    const api = await startApi()
    const gate = { ...u1, cost: 9, gate: true }
    expect((await api.post('/v1/check', gate)).body).toMatchObject({ allowed: true, remaining: 2 })
    await api.post('/v1/check', { ...u1, cost: 2 })
    expect((await api.post('/v1/check', gate)).body).toMatchObject({
      allowed: false,
      reason: 'over',
    })
    const { body } = await api.post('/v1/check', [gate, { attributes: { user: 'u2' }, gate: true }])
    expect(body).toMatchObject([{ allowed: false }, { allowed: true, remaining: 2 }])
  })

  test.each([
    ['empty', { user: '' }],
    ['null', { user: null }],
    ['absent', {}],
  ])(
    'treats an %s attribute as absent, and counts no caller named undefined',
    async (_what, attributes) => {
      const api = await startApi()
      for (let i = 0; i < 3; i++) {
        const { body } = await api.post('/v1/check', { attributes })
        expect(body).toMatchObject({ allowed: true, reason: 'unmatched' })
      }
      const { body } = await api.post('/v1/check', { attributes: { user: 'undefined' } })
      expect(body).toMatchObject({ remaining: 1 })
    },
  )

  test('treats a number and its text as one caller', async () => {
    const api = await startApi()
    await api.post('/v1/check', { attributes: { user: 17 } })
    const { body } = await api.post('/v1/check', { attributes: { user: '17' } })
    expect(body).toMatchObject({ remaining: 0 })
  })

  test.each([
    'a\nb\rc\0d',
    '*',
    '{}',
    'ÿ',
    '\ufffd',
    '\ud800',
    '__proto__',
    'constructor',
    'x'.repeat(8192),
  ])('treats %j as an ordinary caller', async (user) => {
    const api = await startApi()
    const call = { attributes: { user } }
    const remaining: unknown[] = []
    for (let i = 0; i < 3; i++) {
      const { body } = await api.post('/v1/check', call)
      remaining.push((body as { remaining: number }).remaining)
    }
    expect(remaining).toEqual([1, 0, 0])
    expect((await api.post('/v1/check', u1)).body).toMatchObject({ remaining: 1 })
  })

  test.each(['constructor', 'tostring', 'valueof'])(
    'reads an attribute named %s only if it was sent',
    async (name) => {
      const api = await startApi({ rules: [{ id: 'odd', by: [name], limits: ['1/minute'] }] })
      expect((await api.post('/v1/check', { attributes: {} })).body).toMatchObject({ rule: null })
      const { body } = await api.post('/v1/check', { attributes: { [name]: 'x' } })
      expect(body).toMatchObject({ rule: 'odd', remaining: 0 })
    },
  )

  test('answers a call that the rules cannot read with a problem', async () => {
    const rules = [
      { id: 'login', match: { path: '/login' }, by: ['ip'], limits: ['5/minute'] },
      { id: 'tokens', by: ['user'], limits: ['100/minute'], cost: { attribute: 'tokens' } },
    ]
    const api = await startApi({ rules })
    const path = await api.post('/v1/check', { attributes: { path: '/a/../login' } })
    expect(path.status).toBe(400)
    expect(path.headers['content-type']).toBe('application/problem+json')
    expect(path.body).toMatchObject({
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      error: 'CALL_PATH_INVALID',
    })
    const cost = await api.post('/v1/check', { attributes: { user: 'u1', tokens: '1e3' } })
    expect(cost.body).toMatchObject({
      error: 'CALL_COST_INVALID',
      detail: 'attribute tokens must be an integer between 0 and 2^53-1, got 1e3',
    })
  })

  test('answers a failure of the store with a problem, and logs it once a second', async () => {
    const api = await startApi({
      limiter: (limiter) => ({
        ...limiter,
        decide: () => Promise.reject(new Error('secret detail')),
      }),
    })
    const answers = await Promise.all([1, 2, 3].map(() => api.post('/v1/check', u1)))
    for (const { status, body, text } of answers) {
      expect(status).toBe(500)
      expect(body).toMatchObject({ error: 'internal' })
      expect(text).not.toContain('secret detail')
    }
    expect(api.memoryLog.lines).toMatchObject([{ level: 'error', error: 'Error: secret detail' }])
    api.clock.advance(1000)
    await api.post('/v1/check', u1)
    expect(api.memoryLog.lines).toMatchObject([{ suppressed: 0 }, { suppressed: 2 }])
  })
})

describe('GET /healthz and /readyz', () => {
  test('report whether the process runs, and whether it accepts calls', async () => {
    const state = { ready: false, reasons: ['no rules yet'], store: { kind: 'memory' } }
    const api = await startApi({ token: API_TOKEN, readiness: () => state })
    expect((await api.send('/healthz')).text).toBe('{"status":"ok"}')
    const unready = await api.send('/readyz')
    expect(unready.status).toBe(503)
    expect(unready.body).toEqual({
      status: 'not ready',
      reasons: ['no rules yet'],
      store: { kind: 'memory' },
    })
    Object.assign(state, { ready: true, reasons: [] })
    const ready = await api.send('/readyz')
    expect(ready.status).toBe(200)
    expect(ready.body).toEqual({ status: 'ready', reasons: [], store: { kind: 'memory' } })
    const head = await api.send('/readyz', { method: 'HEAD' })
    expect([head.status, head.text]).toEqual([200, ''])
  })
})

describe('an unserved request', () => {
  test('to an unknown path is answered with the known paths', async () => {
    const api = await startApi()
    for (const path of ['/', '/v1/checks', '/v1/check/', '/metrics']) {
      const { status, body } = await api.post(path, u1)
      expect(status).toBe(404)
      expect(body).toMatchObject({
        error: 'not_found',
        detail: expect.stringContaining('/v1/check') as string,
      })
    }
  })

  test.each(ROUTES.filter(({ methods }) => methods.length > 0))(
    'to $path with another method is answered with the allowed methods',
    async ({ path, methods }) => {
      const api = await startApi()
      const method = methods.includes('GET') ? 'POST' : 'GET'
      for (const other of [method, 'DELETE', 'OPTIONS']) {
        const { status, headers, body } = await api.send(path, { method: other })
        expect(status).toBe(405)
        expect(headers.allow).toBe(methods.join(', '))
        expect(body).toMatchObject({ error: 'method_not_allowed' })
      }
    },
  )
})
