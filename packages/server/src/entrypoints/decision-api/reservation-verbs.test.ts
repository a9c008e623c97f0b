/** The verbs of reservations over HTTP. */
import { describe, expect, test } from 'vitest'
import { closeAfterTests, startApi } from './decision-api.test-helper.js'

closeAfterTests()

const RULES = [
  { id: 'requests', by: ['user'], limits: ['10/hour'] },
  {
    id: 'tokens',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max: 1000, window: '1h' }],
    cost: { attribute: 'tokens' },
  },
]
const u1 = (tokens: number) => ({ attributes: { user: 'u1', tokens } })

async function startReserving() {
  const api = await startApi({ rules: RULES })
  const reserve = async (body: object) => {
    const answer = await api.post('/v1/reserve', body)
    return { ...answer, decision: answer.body as { allowed: boolean; reservation: string } }
  }
  const peeked = async () => (await api.post('/v1/explain', u1(0))).body as { explain: Explained[] }
  const left = async () =>
    (await peeked()).explain.map(({ limits }: Explained) => limits[0]?.remaining)
  return { api, reserve, left }
}

interface Explained {
  readonly limits: readonly { readonly remaining: number }[]
}

describe('a reserve over HTTP', () => {
  test('that asks for policies gets them beside its handle', async () => {
    const { reserve } = await startReserving()
    const { body, decision } = await reserve({ ...u1(800), policies: true })
    expect(decision.reservation).toMatch(/^r1~/)
    expect(body).toMatchObject({
      policies: [{ rule: 'requests' }, { rule: 'tokens', remaining: 200 }],
    })
  })

  test('returns the decision with its handle and rate limit headers', async () => {
    const { reserve } = await startReserving()
    const { status, headers, decision } = await reserve({ ...u1(800), ttl: '5m' })
    expect(status).toBe(200)
    expect(decision).toMatchObject({ allowed: true, rule: 'tokens', remaining: 200 })
    expect(decision.reservation).toMatch(/^r1~/)
    expect(headers['ratelimit-policy']).toContain('"tokens"')
    expect(Object.keys(decision)).not.toContain('settle')
  })

  test('is answered with 200 and no handle if it is refused', async () => {
    const { reserve, left } = await startReserving()
    const { status, decision } = await reserve(u1(2000))
    expect(status).toBe(200)
    expect(decision).toMatchObject({ allowed: false, reason: 'cost_exceeds_limit' })
    expect(decision.reservation).toBeUndefined()
    expect(await left()).toEqual([10, 1000])
  })

  test('is settled, and gives back what was not used', async () => {
    const { api, reserve, left } = await startReserving()
    const { reservation } = (await reserve(u1(800))).decision
    const settled = await api.post('/v1/settle', { reservation, actual: 300 })
    expect([settled.status, settled.body]).toEqual([
      200,
      {
        settled: true,
        reason: 'settled',
        charged: 300,
        givenBack: 500,
        owed: 0,
        costs: { tokens: { charged: 300, givenBack: 500, owed: 0 } },
      },
    ])
    const again = await api.post('/v1/settle', { reservation, actual: { tokens: 300 } })
    expect(again.body).toMatchObject({ settled: false, reason: 'already-settled' })
    expect(await left()).toEqual([9, 700])
  })

  test('is extended under a new handle, and cancelled by it', async () => {
    const { api, reserve, left } = await startReserving()
    const first = (await reserve(u1(300))).decision
    const extended = await api.post('/v1/extend', {
      reservation: first.reservation,
      attributes: { tokens: 200 },
    })
    expect(extended.body).toMatchObject({ allowed: true, remaining: 500 })
    const { reservation } = extended.body as { reservation: string }
    expect(reservation).not.toBe(first.reservation)
    const cancelled = await api.post('/v1/cancel', { reservation })
    expect(cancelled.body).toMatchObject({ settled: true, reason: 'cancelled', givenBack: 500 })
    expect(await left()).toEqual([10, 1000])
    const late = await api.post('/v1/extend', { reservation, attributes: { tokens: 1 } })
    expect([late.status, late.body]).toMatchObject([409, { error: 'RESERVATION_ENDED' }])
  })

  test('with a key that was used for other costs gets 409', async () => {
    const { reserve } = await startReserving()
    await reserve({ ...u1(100), idempotencyKey: 'k' })
    const { status, body } = await reserve({ ...u1(200), idempotencyKey: 'k' })
    expect([status, body]).toMatchObject([409, { error: 'RESERVATION_DIFFERS' }])
  })

  test('takes lists, in which one that fails stops no other', async () => {
    const { api, left } = await startReserving()
    const reserved = await api.post('/v1/reserve', [u1(100), u1(200)])
    const [first, second] = reserved.body as { reservation: string }[]
    const settled = await api.post('/v1/settle', [
      { reservation: first?.reservation, actual: 10 },
      { reservation: 'r1~forged', actual: 10 },
      { reservation: second?.reservation, actual: 20 },
    ])
    expect(settled.body).toMatchObject([
      { settled: true, charged: 10 },
      { status: 400, error: 'RESERVATION_INVALID' },
      { settled: true, charged: 20 },
    ])
    expect(await left()).toEqual([8, 970])
  })

  test.each([
    [{ ...u1(1), ttl: '2h' }, 'ttl: found 2h; accepted: a duration from 1s to 1h'],
    [{ ...u1(1), ttl: true }, 'ttl: found true; accepted: a duration such as "90s"'],
    [{ ...u1(1), tll: '90s' }, 'unknown key "tll", did you mean "ttl"?'],
  ])('is refused with what is wrong: %j', async (body, detail) => {
    const { reserve } = await startReserving()
    const { status, body: problem } = await reserve(body)
    expect([status, problem]).toMatchObject([
      400,
      { detail: expect.stringContaining(detail) as string },
    ])
  })
})
