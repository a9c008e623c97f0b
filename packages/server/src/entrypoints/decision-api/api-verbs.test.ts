import { describe, expect, test } from 'vitest'
import {
  ADMIN_TOKEN,
  API_TOKEN,
  closeAfterTests,
  ownHeaders,
  startApi,
  type TestApi,
} from './decision-api.test-helper.js'

closeAfterTests()

const u1 = { attributes: { user: 'u1' } }

describe('a list of calls', () => {
  const rules = [
    { id: 'per-user', by: ['user'], limits: ['2/minute'] },
    { id: 'login', match: { path: '/login' }, by: ['user'], limits: ['9/minute'] },
  ]

  test('decides each item on its own, in order, and has no rate limit headers', async () => {
    const api = await startApi()
    const users = ['u1', 'u2', 'u1', 'u1', 'u2']
    const answer = await api.post(
      '/v1/check',
      users.map((user) => ({ attributes: { user } })),
    )
    expect(answer.status).toBe(200)
    const decisions = answer.body as { allowed: boolean; remaining: number }[]
    expect(decisions.map(({ remaining }) => remaining)).toEqual([1, 1, 0, 0, 0])
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, false, true])
    expect(Object.keys(ownHeaders(answer)).sort()).toEqual(['content-length', 'content-type'])
  })

  test('that is empty is answered with an empty list', async () => {
    const api = await startApi()
    expect((await api.post('/v1/check', [])).text).toBe('[]')
    expect((await api.post('/v1/peek', [])).text).toBe('[]')
  })

  test('is refused whole if an item is not a call, and nothing was decided', async () => {
    const api = await startApi()
    const { status, body } = await api.post('/v1/check', [
      u1,
      u1,
      { attributes: { user: 'u1' }, cost: -1 },
    ])
    expect(status).toBe(400)
    expect(body).toMatchObject({
      error: 'CALL_COST_INVALID',
      detail: expect.stringContaining('[2].cost') as string,
    })
    expect((await api.post('/v1/peek', u1)).body).toMatchObject({ remaining: 2 })
  })

  test('has a problem in place of an item that the rules cannot read', async () => {
    const api = await startApi({ rules })
    const bad = { attributes: { user: 'u1', path: '//login' } }
    const { status, body } = await api.post('/v1/check', [u1, bad, u1])
    expect(status).toBe(200)
    expect(body).toMatchObject([
      { allowed: true, remaining: 1 },
      { type: 'about:blank', title: 'Bad Request', status: 400, error: 'CALL_PATH_INVALID' },
      { allowed: true, remaining: 0 },
    ])
  })

  test('charges up to a thousand items, and more are refused', async () => {
    const api = await startApi({ rules: [{ id: 'r', by: ['user'], limits: ['1001/day'] }] })
    const { body } = await api.post(
      '/v1/check',
      Array.from({ length: 1000 }, () => u1),
    )
    expect((body as object[]).at(-1)).toMatchObject({ allowed: true, remaining: 1 })
    const refused = await api.post(
      '/v1/check',
      Array.from({ length: 1001 }, () => u1),
    )
    expect(refused.status).toBe(400)
    expect(refused.body).toMatchObject({ error: 'CALL_INVALID' })
  })

  test('gets its receipts by item', async () => {
    const api = await startApi()
    const { body } = await api.post('/v1/check', [u1, { ...u1, receipt: true }])
    const [first, second] = body as { receipt?: string }[]
    expect(first).not.toHaveProperty('receipt')
    expect(second?.receipt).toEqual(expect.any(String))
  })

  test('lists the limits of those items that ask for policies', async () => {
    const api = await startApi()
    const answer = await api.post('/v1/check', [u1, { ...u1, policies: true }])
    const [first, second] = answer.body as object[]
    expect(first).not.toHaveProperty('policies')
    expect(second).toMatchObject({ allowed: true, policies: [{ name: 'per-user', remaining: 0 }] })
  })
})

describe('a call that asks for policies', () => {
  test.each(['/v1/check', '/v1/peek'])('gets every enforced limit from %s', async (path) => {
    const api = await startApi({
      rules: [{ id: 'per-user', by: ['user'], limits: ['2/minute', '9/day'] }],
    })
    const { body, headers } = await api.post(path, { ...u1, policies: true })
    const remaining = path === '/v1/check' ? [1, 8] : [2, 9]
    expect(body).toMatchObject({
      allowed: true,
      policies: [
        { name: 'per-user:token-bucket-1m', limit: 2, windowMs: 60_000, remaining: remaining[0] },
        { name: 'per-user:token-bucket-1d', limit: 9, remaining: remaining[1] },
      ],
    })
    expect(headers['ratelimit-policy']).toContain('"per-user:token-bucket-1m";q=2;w=60')
  })

  test('gets an empty list if no rule matches', async () => {
    const api = await startApi()
    const { body } = await api.post('/v1/check', { attributes: {}, policies: true })
    expect(body).toMatchObject({ reason: 'unmatched', policies: [] })
  })
})

describe('a receipt that is asked for if the call is delayed', () => {
  test('is absent from a decision without a delay, and present with one', async () => {
    const limits = [{ algorithm: 'leaky-bucket', max: 60, window: '1m', queue: 2 }]
    const api = await startApi({ rules: [{ id: 'queue', by: ['user'], limits }] })
    const call = { ...u1, receipt: 'if-delayed' }
    const { body } = await api.post('/v1/check', [call, call])
    const [first, second] = body as { delayMs: number; receipt?: string }[]
    expect([first?.delayMs, first?.receipt]).toEqual([0, undefined])
    expect(second).toMatchObject({ delayMs: 1000, receipt: expect.any(String) as string })
  })

  test('is not any other text', async () => {
    const api = await startApi()
    const { status, body } = await api.post('/v1/check', { ...u1, receipt: 'yes' })
    expect(status).toBe(400)
    expect(body).toMatchObject({
      detail: 'receipt: found "yes"; accepted: true, false or "if-delayed"',
    })
  })
})

describe('POST /v1/peek and /v1/explain', () => {
  test('spend nothing', async () => {
    const api = await startApi()
    for (let i = 0; i < 3; i++) {
      const peeked = await api.post('/v1/peek', { ...u1, cost: 2 })
      expect(peeked.body).toMatchObject({ allowed: true, remaining: 2 })
      expect(peeked.headers['ratelimit']).toBe('"per-user";r=2;t=0')
      const explained = await api.post('/v1/explain', u1)
      expect(explained.body).toMatchObject({
        allowed: true,
        explain: [{ rule: 'per-user', matched: true, limits: [{ remaining: 2 }] }],
      })
    }
    const peeked = await api.post('/v1/peek', [u1, { ...u1, cost: 3 }])
    expect(peeked.body).toMatchObject([{ allowed: true }, { reason: 'cost_exceeds_limit' }])
  })

  test.each(['/v1/peek', '/v1/explain'])('by %s return no receipt', async (path) => {
    const api = await startApi()
    const { status, body } = await api.post(path, { ...u1, receipt: true })
    expect(status).toBe(400)
    expect(body).toMatchObject({ error: 'CALL_INVALID' })
  })

  test.each(['/v1/explain', '/v1/reset'])('by %s accept no list', async (path) => {
    const api = await startApi()
    const { status, body } = await api.post(path, [u1], { token: ADMIN_TOKEN })
    expect(status).toBe(400)
    expect(body).toMatchObject({
      error: 'CALL_INVALID',
      detail: expect.stringContaining('a list') as string,
    })
  })
})

describe('POST /v1/refund', () => {
  const remainingOf = async (api: TestApi, token: string) =>
    ((await api.post('/v1/peek', u1, { token })).body as { remaining: number }).remaining

  test('pays a receipt once, with the token of the API', async () => {
    const token = API_TOKEN
    const api = await startApi({ token })
    const { body } = await api.post('/v1/check', { ...u1, cost: 2, receipt: true }, { token })
    const { receipt } = body as { receipt: string }
    await api.post('/v1/check', u1, { token })
    for (let i = 0; i < 2; i++) {
      const refunded = await api.post('/v1/refund', { receipt }, { token })
      expect(refunded.status).toBe(200)
      expect(refunded.body).toEqual({ refunded: true })
      expect(await remainingOf(api, token)).toBe(2)
    }
  })

  test.each(['', '1~a~b', 'x'.repeat(9000)])('refuses the receipt %j', async (receipt) => {
    const api = await startApi()
    const { status, body } = await api.post('/v1/refund', { receipt })
    expect(status).toBe(400)
    expect(body).toMatchObject({ error: 'RECEIPT_INVALID' })
  })

  test('needs the admin token to refund by attributes', async () => {
    const api = await startApi({ token: API_TOKEN })
    await api.post('/v1/check', { ...u1, cost: 2 }, { token: API_TOKEN })
    const refused = await api.post('/v1/refund', { ...u1, cost: 2 }, { token: API_TOKEN })
    expect(refused.status).toBe(403)
    expect(refused.body).toMatchObject({
      error: 'forbidden',
      detail: 'A refund by attributes, unlike one by receipt, needs the admin token.',
    })
    expect(await remainingOf(api, API_TOKEN)).toBe(0)
    const paid = await api.post('/v1/refund', { ...u1, cost: 1 }, { token: ADMIN_TOKEN })
    expect(paid.body).toEqual({ refunded: true })
    expect(await remainingOf(api, API_TOKEN)).toBe(1)
  })

  test('pays each receipt of a list, and has a problem in place of one that is damaged', async () => {
    const token = API_TOKEN
    const api = await startApi({ token })
    const call = { ...u1, receipt: true }
    const { body } = await api.post('/v1/check', [call, call], { token })
    const [first, second] = body as { receipt: string }[]
    const sent = [{ receipt: first?.receipt }, { receipt: 'x' }, { receipt: second?.receipt }]
    const refunded = await api.post('/v1/refund', sent, { token })
    expect(refunded.status).toBe(200)
    expect(refunded.body).toMatchObject([
      { refunded: true },
      { status: 400, error: 'RECEIPT_INVALID' },
      { refunded: true },
    ])
    expect(await remainingOf(api, token)).toBe(2)
  })

  test('refuses a whole list with one refund by attributes, without the admin token', async () => {
    const token = API_TOKEN
    const api = await startApi({ token })
    const { body } = await api.post('/v1/check', { ...u1, receipt: true }, { token })
    const { receipt } = body as { receipt: string }
    const refused = await api.post('/v1/refund', [{ receipt }, u1], { token })
    expect(refused.status).toBe(403)
    expect(await remainingOf(api, token)).toBe(1)
    const paid = await api.post('/v1/refund', [{ receipt }, u1], { token: ADMIN_TOKEN })
    expect(paid.body).toEqual([{ refunded: true }, { refunded: true }])
  })

  test('names the item of a list that is no refund', async () => {
    const api = await startApi()
    const { status, body } = await api.post('/v1/refund', [{ receipt: '1~a' }, { receipt: 5 }])
    expect(status).toBe(400)
    expect(body).toMatchObject({
      detail: '[1].receipt: found 5; accepted: text, as check gave it',
    })
  })
})

describe('POST /v1/reset', () => {
  test('resets a caller, of one rule or of all', async () => {
    const rules = ['a', 'b'].map((id) => ({ id, by: ['user'], limits: ['1/minute'] }))
    const api = await startApi({ rules })
    const left = async () => {
      const { body } = await api.post('/v1/explain', u1)
      const { explain } = body as { explain: { limits: { remaining: number }[] }[] }
      return explain.map(({ limits }) => limits[0]?.remaining)
    }
    await api.post('/v1/check', u1)
    expect(await left()).toEqual([0, 0])
    const reset = await api.post('/v1/reset', { ...u1, rule: 'a' }, { token: ADMIN_TOKEN })
    expect(reset.body).toEqual({ reset: true })
    expect(await left()).toEqual([1, 0])
    await api.post('/v1/reset', u1, { token: ADMIN_TOKEN })
    expect(await left()).toEqual([1, 1])
  })

  test('reports a rule that does not exist', async () => {
    const api = await startApi()
    const sent = { token: ADMIN_TOKEN }
    const unknown = await api.post('/v1/reset', { ...u1, rule: 'x' }, sent)
    expect(unknown.status).toBe(404)
    expect(unknown.body).toMatchObject({ error: 'RULE_UNKNOWN' })
    const wrong = await api.post('/v1/reset', { ...u1, rule: 5 }, sent)
    expect(wrong.body).toMatchObject({ error: 'CALL_INVALID' })
  })
})
