import { describe, expect, test } from 'vitest'
import type { RemoteDecision } from './decision-types.js'
import { collect, DECISION, POSTURE, user, VirtualServer } from './remote-limiter.test-helper.js'

describe('a fallback', () => {
  const decided = (fields: object) => ({
    ...DECISION,
    policies: () => [],
    policyField: () => '',
    leftField: () => '',
    eachRule: () => {},
    ...fields,
  })

  test('decides while the server does not answer, and gets its receipts back', async () => {
    const server = new VirtualServer()
    const refunded: string[] = []
    const limiter = server.limiter({
      fallback: {
        check: () => Promise.resolve(decided({ receipt: '1~own' }) as never),
        refund: (receipt) => Promise.resolve(void refunded.push(receipt)),
      },
    })
    const found = collect([limiter.check(user('u1'), { receipt: true })])
    await server.endTurn()
    await server.last().fail('ECONNREFUSED')
    expect(found).toMatchObject([{ allowed: true, reason: 'within', source: 'posture' }])
    const [decision] = found as RemoteDecision[]
    await limiter.refund(decision?.receipt ?? '')
    expect(refunded).toEqual(['1~own'])
  })

  test('is given back what it counted if the server counted the call after all', async () => {
    const server = new VirtualServer()
    const refunded: string[] = []
    const limiter = server.limiter({
      deadlineMs: 50,
      fallback: {
        check: () => Promise.resolve(decided({ receipt: '1~own' }) as never),
        refund: (receipt) => Promise.resolve(void refunded.push(receipt)),
      },
    })
    const found = collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.advance(50)
    await server.last().answer(() => ({ ...DECISION, receipt: '1~server' }))
    expect(refunded).toEqual(['1~own'])
    expect(found[0]).not.toHaveProperty('receipt')
  })
})

test('what a fallback counts after the server has is given back as well', async () => {
  const server = new VirtualServer()
  const refunded: string[] = []
  let decide: (decided: never) => void = () => {}
  const limiter = server.limiter({
    deadlineMs: 50,
    fallback: {
      check: () => new Promise((resolve) => (decide = resolve)),
      refund: (receipt) => Promise.resolve(void refunded.push(receipt)),
    },
  })
  collect([limiter.check(user('u1'))])
  await server.endTurn()
  await server.advance(50)
  await server.last().answer(() => ({ ...DECISION, receipt: '1~server' }))
  decide({ ...DECISION, receipt: '1~own', policies: () => [] } as never)
  await server.endTurn()
  expect(refunded).toEqual(['1~own'])
})

describe('a fallback that does not decide', () => {
  const hanging = () => new Promise<never>(() => {})
  test.each([
    ['rejects', () => Promise.reject(new Error('full'))],
    [
      'throws',
      () => {
        throw new Error('full')
      },
    ],
    ['returns something else', () => Promise.resolve({ allowed: true })],
  ])('because it %s leaves the call to the posture, and one line in the log', async (_, check) => {
    const server = new VirtualServer()
    const limiter = server.limiter({ fallback: { check: check as never, peek: check as never } })
    const found = collect([
      limiter.check(user('u1')),
      limiter.check(user('u2')),
      limiter.peek(user('u1')),
    ])
    await server.endTurn()
    for (const request of server.requests) await request.fail('ECONNREFUSED')
    expect(found).toMatchObject(found.map(() => ({ allowed: true, ...POSTURE })))
    expect(server.logged).toHaveLength(1)
    expect(server.logged[0]).toContain('sluice: remote limiter: the fallback failed: ')
  })

  test('because it hangs is waited for as long as the server', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50, fallback: { check: hanging } })
    const found = collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.last().fail('ECONNREFUSED')
    await server.advance(49)
    expect(found).toEqual([undefined])
    await server.advance(1)
    expect(found).toMatchObject([POSTURE])
  })

  test('because the call is invalid rejects with that', async () => {
    const server = new VirtualServer()
    const error = Object.assign(new Error('path: found a dot segment'), { status: 400 })
    const limiter = server.limiter({ fallback: { check: () => Promise.reject(error) } })
    const found = collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.last().fail('ECONNREFUSED')
    expect(found).toEqual([error])
  })

  test('but fails in a refund costs no other call its answer', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({
      deadlineMs: 50,
      fallback: {
        check: () =>
          Promise.resolve({ ...DECISION, receipt: '1~own', policies: () => [] } as never),
        refund: () => {
          throw new Error('gone')
        },
      },
    })
    for (let i = 0; i < 16; i++) {
      collect([limiter.check(user('u1'))])
      await server.endTurn()
    }
    // Two calls of different turns, which leave in one list.
    collect([limiter.check(user('u2'))])
    await server.endTurn()
    await server.advance(30)
    const last = collect([limiter.check(user('u3'))])
    await server.endTurn()
    await server.requests[0]?.answer()
    expect(server.last().items).toHaveLength(2)
    await server.advance(20)
    await server.last().answer(() => ({ ...DECISION, receipt: '1~server' }))
    expect(last).toMatchObject([{ source: 'store' }])
    expect(limiter.stats.pending).toBe(0)
  })
})
