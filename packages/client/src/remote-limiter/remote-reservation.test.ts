/** Reservations over the decision API, and what happens to them without a server. */
import { describe, expect, test } from 'vitest'
import { DECISION, POSTURE, VirtualServer } from './remote-limiter.test-helper.js'

const call = { attributes: { user: 'u1', tokens: 800 } }
const RESERVED = { ...DECISION, reservation: 'r1~x' }
const SETTLED = {
  settled: true,
  reason: 'settled',
  charged: 300,
  givenBack: 500,
  owed: 0,
  costs: { tokens: { charged: 300, givenBack: 500, owed: 0 } },
}

/** Reserves, and answers with a reservation. */
async function reserve(server: VirtualServer, limiter = server.limiter()) {
  const reserving = limiter.reserve(call, { ttl: '5m', idempotencyKey: 'k' })
  await server.endTurn()
  await server.last().answer(() => RESERVED)
  return { limiter, reservation: await reserving }
}

describe('a remote reservation', () => {
  test('is made, extended and settled by the verbs of the decision API', async () => {
    const server = new VirtualServer()
    const { limiter, reservation } = await reserve(server)
    expect(server.last()).toMatchObject({
      path: '/v1/reserve',
      items: [{ attributes: { user: 'u1', tokens: 800 }, ttl: '5m', idempotencyKey: 'k' }],
    })
    expect(reservation).toMatchObject({ allowed: true, reservation: 'r1~x' })

    const extending = reservation.extend({ tokens: 200 })
    await server.endTurn()
    expect(server.last()).toMatchObject({
      path: '/v1/extend',
      items: [{ reservation: 'r1~x', attributes: { tokens: 200 } }],
    })
    await server.last().answer(() => ({ ...RESERVED, reservation: 'r1~y' }))
    const extended = await extending
    expect(extended.reservation).toBe('r1~y')

    const settling = extended.settle({ tokens: 300 })
    await server.endTurn()
    expect(server.last()).toMatchObject({
      path: '/v1/settle',
      items: [{ reservation: 'r1~y', actual: { tokens: 300 } }],
    })
    await server.last().answer(() => SETTLED)
    expect(await settling).toEqual(SETTLED)

    const cancelling = limiter.cancel('r1~z')
    await server.endTurn()
    expect(server.last()).toMatchObject({
      path: '/v1/cancel',
      items: [{ reservation: 'r1~z' }],
    })
    await server.last().answer(() => ({ ...SETTLED, reason: 'cancelled' }))
    expect(await cancelling).toMatchObject({ reason: 'cancelled' })
  })

  test('is a decision by posture without a server, and then settles nothing', async () => {
    const server = new VirtualServer()
    const reserving = server.limiter().reserve(call)
    await server.endTurn()
    await server.last().fail('ECONNREFUSED')
    const reservation = await reserving
    expect(reservation).toMatchObject({ allowed: true, ...POSTURE })
    expect(reservation.reservation).toBeUndefined()
    expect(await reservation.settle(300)).toMatchObject({ settled: false, reason: 'posture' })
    expect(await reservation.cancel()).toMatchObject({ settled: false, reason: 'posture' })
    expect(server.requests).toHaveLength(1)
  })

  test('may hold places if it was made, so that a middleware ends it with its call', async () => {
    const server = new VirtualServer()
    const { limiter, reservation } = await reserve(server)
    expect(reservation.holdsPlaces()).toBe(true)
    const settling = reservation.settle({})
    await server.endTurn()
    expect(server.last().items).toEqual([{ reservation: 'r1~x', actual: {} }])
    await server.last().answer(() => SETTLED)
    await settling
    const reserving = limiter.reserve(call)
    await server.endTurn()
    await server.last().fail('ECONNREFUSED')
    expect((await reserving).holdsPlaces()).toBe(false)
  })

  test('that is extended by posture keeps its handle, so that it can be settled', async () => {
    const server = new VirtualServer()
    const { reservation } = await reserve(server)
    const extending = reservation.extend({ tokens: 200 }, { idempotencyKey: 'part 2' })
    await server.endTurn()
    expect(server.last().items).toEqual([
      { reservation: 'r1~x', attributes: { tokens: 200 }, idempotencyKey: 'part 2' },
    ])
    await server.last().fail('ECONNRESET')
    const extended = await extending
    expect(extended).toMatchObject({ allowed: true, ...POSTURE, reservation: 'r1~x' })
    const settling = extended.settle(300)
    await server.endTurn()
    expect(server.last()).toMatchObject({ path: '/v1/settle', items: [{ reservation: 'r1~x' }] })
    await server.last().answer(() => SETTLED)
    expect(await settling).toEqual(SETTLED)
  })

  test('that the server made too late for a refused call is given back', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ posture: 'closed' })
    const reserving = limiter.reserve(call)
    await server.endTurn()
    const request = server.last()
    await server.advance(100)
    expect((await reserving).allowed).toBe(false)
    await request.answer(() => RESERVED)
    await server.endTurn()
    expect(server.last()).toMatchObject({ path: '/v1/cancel', items: [{ reservation: 'r1~x' }] })
  })

  test('that the server made too late for an admitted call stays charged, without its places', async () => {
    const places = { ...DECISION, name: 'in-flight', limit: 2, windowMs: 0 }
    const window = { ...DECISION, name: 'tokens', limit: 1000, windowMs: 60_000 }
    for (const [policies, ends] of [
      [[window], []],
      [[window, places], [{ reservation: 'r1~x', actual: {} }]],
    ] as const) {
      const server = new VirtualServer()
      const reserving = server.limiter().reserve(call)
      await server.endTurn()
      const request = server.last()
      await server.advance(100)
      expect(await reserving).toMatchObject({ allowed: true, ...POSTURE })
      await request.answer(() => ({ ...RESERVED, policies }))
      await server.endTurn()
      const settles = server.requests.filter(({ path }) => path === '/v1/settle')
      expect(settles.flatMap(({ items }) => items)).toEqual(ends)
    }
  })

  test('whose settle is not confirmed rejects, and can be settled again', async () => {
    const server = new VirtualServer()
    const { reservation } = await reserve(server)
    const settling = reservation.settle(300)
    await server.endTurn()
    const rejected = expect(settling).rejects.toMatchObject({
      code: 'STORE_FAILED',
      message: expect.stringContaining('The settle was not confirmed') as string,
    })
    await server.last().fail('ECONNRESET')
    await rejected
    const again = reservation.settle(300)
    await server.endTurn()
    await server.last().answer(() => SETTLED)
    expect(await again).toMatchObject({ settled: true })
  })

  test('rejects with the problem that the server found', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    const settling = limiter.settle('r1~forged', 1)
    await server.endTurn()
    const rejected = expect(settling).rejects.toMatchObject({ code: 'RESERVATION_INVALID' })
    await server
      .last()
      .answer(() => ({ status: 400, error: 'RESERVATION_INVALID', detail: 'its checksum' }))
    await rejected
  })

  test.each([
    ['a number below 0', -1],
    ['a fraction', 1.5],
    ['a cost that is no number', { tokens: '1' as unknown as number }],
    ['nothing', undefined as unknown as number],
  ])('is not settled with %s', async (_, actual) => {
    const server = new VirtualServer()
    await expect(server.limiter().settle('r1~x', actual)).rejects.toMatchObject({
      code: 'CALL_COST_INVALID',
    })
    expect(server.requests).toEqual([])
  })
})
