import { describe, expect, test } from 'vitest'
import type { RemoteDecision } from './decision-types.js'
import type { RemoteState } from './remote-options.js'
import { collect, DECISION, POSTURE, user, VirtualServer } from './remote-limiter.test-helper.js'
import { remoteLimiter } from './remote-limiter.js'

/** Fails until the breaker is open. */
async function openBreaker(server: VirtualServer, limiter: ReturnType<VirtualServer['limiter']>) {
  for (let i = 0; i < 5; i++) {
    const call = limiter.check(user('u1'))
    await server.endTurn()
    await server.last().fail('ECONNREFUSED')
    await call
    server.nowMs += 20
  }
}

describe('calls of one turn', () => {
  test('are one list, whose decisions return to their calls', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ token: 'secret' })
    const found = collect(['u1', 'u2', 'u3'].map((name) => limiter.check(user(name))))
    await server.endTurn()
    expect(server.requests).toHaveLength(1)
    expect(server.last()).toMatchObject({
      path: '/v1/check',
      headers: { Authorization: 'Bearer secret' },
      items: [
        { attributes: { user: 'u1' }, policies: true },
        { attributes: { user: 'u2' } },
        { attributes: { user: 'u3' } },
      ],
    })
    await server.last().answer((_item, index) => ({ ...DECISION, remaining: index }))
    expect(found.map((decision) => decision)).toMatchObject([
      { remaining: 0 },
      { remaining: 1 },
      { remaining: 2 },
    ])
    expect(limiter.stats).toMatchObject({ pending: 0, requests: 1, decided: 3, byPosture: 0 })
  })

  test('are one list for each operation', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    const peeked = collect([limiter.peek(user('u1'))])
    const checked = collect([limiter.check(user('u1'), { receipt: true, canWait: false })])
    const refunded = limiter.refund('1~a')
    await server.endTurn()
    expect(server.requests.map(({ path }) => path)).toEqual(['/v1/peek', '/v1/check', '/v1/refund'])
    expect(server.requests[1]?.items[0]).toMatchObject({ receipt: true, canWait: false })
    expect(server.requests[2]?.items).toEqual([{ receipt: '1~a' }])
    for (const request of server.requests.slice(0, 2)) await request.answer()
    await server.last().answer(() => ({ refunded: true }))
    await refunded
    expect([...peeked, ...checked]).toMatchObject([{ allowed: true }, { allowed: true }])
  })

  test('may be gates, which need no receipt whatever happens', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ posture: 'closed' })
    const gated = collect([limiter.check(user('u1'), { gate: true, receipt: true })])
    await server.endTurn()
    expect(server.last().items).toEqual([
      { attributes: { user: 'u1' }, policies: true, gate: true },
    ])
    await server.last().answer()
    expect(gated).toMatchObject([{ allowed: true }])
  })

  test('are split into lists of a thousand items', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    const found = collect(Array.from({ length: 2500 }, () => limiter.check(user('u1'))))
    await server.endTurn()
    expect(server.requests.map(({ items }) => items.length)).toEqual([1000, 1000, 500])
    for (const request of server.requests) await request.answer()
    expect(found.every((decision) => decision !== undefined)).toBe(true)
  })

  test('are split into lists of up to 256 KB', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    const call = { attributes: { user: 'ä'.repeat(8000), path: 'x'.repeat(8000) } }
    collect(Array.from({ length: 40 }, () => limiter.check(call)))
    await server.endTurn()
    const sizes = server.requests.map(({ bytes }) => bytes)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(256 * 1024)
    expect(server.requests.map(({ items }) => items.length)).toEqual([10, 10, 10, 10])
  })

  test('wait in longer lists while sixteen requests are in flight', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    for (let i = 0; i < 20; i++) {
      collect([limiter.check(user('u1'))])
      await server.endTurn()
    }
    expect(server.requests).toHaveLength(16)
    await server.requests[0]?.answer()
    expect(server.last().items).toHaveLength(4)
  })

  test('beyond the most that may wait are decided by posture at once', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ maxPending: 2 })
    const found = collect(['u1', 'u2', 'u3'].map((name) => limiter.check(user(name))))
    await server.endTurn()
    expect(found[2]).toMatchObject({ allowed: true, ...POSTURE })
    expect(server.last().items).toHaveLength(2)
    expect(limiter.stats.lastFailure).toBe('2 calls wait already')
  })
})

describe('the deadline', () => {
  test.each(['open', 'closed'] as const)(
    'ends in a decision by the posture %s',
    async (posture) => {
      const server = new VirtualServer()
      const limiter = server.limiter({ posture, deadlineMs: 50 })
      const found = collect([limiter.check(user('u1'))])
      await server.endTurn()
      await server.advance(49)
      expect(found).toEqual([undefined])
      await server.advance(1)
      const retryAfterMs = posture === 'open' ? 0 : 1000
      expect(found).toMatchObject([{ allowed: posture === 'open', ...POSTURE, retryAfterMs }])
    },
  )

  test('passes only after the sockets were read once more, for a process that was busy', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50 })
    const found = collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.advance(500, () => server.last().answer())
    expect(found).toMatchObject([{ source: 'store' }])
  })

  test('begins when the turn of the calls ends, for a program that computes for longer', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50, posture: 'closed' })
    const found = collect([limiter.check(user('u1'))])
    await server.advance(60)
    await server.endTurn()
    await server.advance(49)
    expect([server.requests.length, found]).toEqual([1, [undefined]])
    await server.last().answer()
    expect(found).toMatchObject([{ source: 'store' }])
  })

  test('leaves no timer behind if the answer comes before the turn of the call ends', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    for (let i = 0; i < 16; i++) {
      collect([limiter.check(user('u1'))])
      await server.endTurn()
    }
    // The answer of another call frees a request, in which this one leaves before its turn ends.
    const found = collect([limiter.check(user('u2'))])
    await server.requests[0]?.answer()
    await server.last().answer()
    expect(found).toMatchObject([{ source: 'store' }])
    for (const request of server.requests.slice(1, 16)) await request.answer()
    await server.endTurn()
    expect(server.timers).toBe(0)
  })

  test('also holds for calls that wait for a request to return', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50 })
    const found = []
    for (let i = 0; i < 20; i++) {
      found.push(collect([limiter.check(user('u1'))]))
      await server.endTurn()
    }
    expect([server.requests.length, limiter.stats.pending]).toEqual([16, 20])
    await server.advance(50)
    expect(found.flat()).toMatchObject(found.map(() => POSTURE))
    expect([server.requests.length, limiter.stats.pending]).toEqual([16, 0])
  })

  test('is followed by a second in which a late answer keeps its connection', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50 })
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.advance(50)
    await server.advance(999)
    expect(server.last().isAborted()).toBe(false)
    await server.advance(1)
    expect(server.last().isAborted()).toBe(true)
  })

  test('of a refused call gives back what a late answer took', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50, posture: 'closed' })
    const found = collect([limiter.check(user('u1'))])
    await server.endTurn()
    expect(server.last().items[0]).toMatchObject({ receipt: true })
    await server.advance(50)
    expect(found).toMatchObject([{ allowed: false }])
    await server.last().answer(() => ({ ...DECISION, receipt: '1~late' }))
    await server.endTurn()
    expect(server.last()).toMatchObject({ path: '/v1/refund', items: [{ receipt: '1~late' }] })
  })
})

test('a late answer of a refused call is given back also while the server is not asked', async () => {
  const server = new VirtualServer()
  const limiter = server.limiter({ deadlineMs: 50, posture: 'closed' })
  for (let i = 0; i < 5; i++) {
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.advance(50)
  }
  expect(limiter.stats.state.state).toBe('unreachable')
  await server.last().answer(() => ({ ...DECISION, receipt: '1~late' }))
  await server.endTurn()
  expect(server.last()).toMatchObject({ path: '/v1/refund', items: [{ receipt: '1~late' }] })
})

describe('a server that fails', () => {
  test('is asked no more after five failures, for a second', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    await openBreaker(server, limiter)
    expect(server.requests).toHaveLength(5)
    expect(await limiter.check(user('u1'))).toMatchObject(POSTURE)
    await server.endTurn()
    expect(server.requests).toHaveLength(5)
    expect(limiter.stats.state).toEqual({ state: 'unreachable', detail: 'ECONNREFUSED' })
    expect(limiter.stats.lastFailure).toBe('not asked, because of an earlier failure: ECONNREFUSED')
  })

  test('for another reason than before shows the later one', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    await openBreaker(server, limiter)
    server.nowMs += 1100
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.last().respond(503, { detail: 'Shutting down.' })
    expect(limiter.stats.state.detail).toBe('status 503: Shutting down.')
    expect(server.logged).toHaveLength(1)
  })

  test('is probed by one call of a turn, whose answer ends the pause', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    await openBreaker(server, limiter)
    server.nowMs += 1100
    const found = collect([limiter.check(user('u1')), limiter.check(user('u2'))])
    await server.endTurn()
    expect(server.last().items).toHaveLength(1)
    expect(found).toMatchObject([undefined, POSTURE])
    await server.last().answer()
    expect(found[0]).toMatchObject({ source: 'store' })
    collect([limiter.check(user('u1')), limiter.check(user('u2'))])
    await server.endTurn()
    expect(server.last().items).toHaveLength(2)
    expect(server.logged).toEqual([
      'sluice: remote limiter: http://127.0.0.1:8081 does not answer: ECONNREFUSED; decided by posture open',
      'sluice: remote limiter: http://127.0.0.1:8081 answers again',
    ])
  })

  test('is probed again after 200 to 400 ms if a probe fails', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    await openBreaker(server, limiter)
    server.nowMs += 1100
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.last().fail('ECONNREFUSED')
    server.nowMs += 299
    await limiter.check(user('u1'))
    expect(server.requests).toHaveLength(6)
    server.nowMs += 1
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    expect(server.requests).toHaveLength(7)
  })

  test.each([
    [401, { detail: 'Send the token.' }, 'unauthorized', 'status 401: Send the token.'],
    [404, 'no such page', 'unexpected', 'status 404'],
    [200, { hello: 1 }, 'unexpected', 'the answer is not one of the decision API'],
    [200, [null], 'unexpected', 'the answer is not one of the decision API'],
    [200, [{ attributes: {} }], 'unexpected', 'the answer is not one of the decision API'],
    [404, { detail: 'one\nsluice: two' }, 'unexpected', 'status 404: one sluice: two'],
  ])('with status %d and %j is reported at once', async (status, body, state, detail) => {
    const server = new VirtualServer()
    const states: RemoteState[] = []
    const limiter = server.limiter({ onState: (each) => void states.push(each) })
    const found = collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.last().respond(status, body)
    await limiter.check(user('u1'))
    expect(found).toMatchObject([{ allowed: true, ...POSTURE }])
    expect(server.requests).toHaveLength(1)
    expect(states).toEqual([{ state, detail }])
    expect(server.logged).toHaveLength(1)
  })

  test.each([408, 429, 500, 503])('with status %d once is asked again', async (status) => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.last().respond(status, {})
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    expect(server.requests).toHaveLength(2)
  })

  test('costs no decision if its listener or logger throws', async () => {
    const server = new VirtualServer()
    const fail = () => {
      throw new Error('a mistake')
    }
    const limiter = server.limiter({ onState: fail, logger: { warn: fail, error: fail } })
    const found = collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.last().respond(401, {})
    expect(found).toMatchObject([POSTURE])
  })
})

describe('an item', () => {
  test('that is invalid by itself rejects with the code of the server, and no other', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    const found = collect([limiter.check(user('u1')), limiter.check(user('u2'))])
    await server.endTurn()
    const problem = { status: 400, error: 'CALL_PATH_INVALID', detail: 'path: found a dot segment' }
    await server.last().answer((_item, index) => (index === 0 ? problem : DECISION))
    expect(found[0]).toMatchObject({ code: 'CALL_PATH_INVALID', status: 400 })
    expect(found[1]).toMatchObject({ allowed: true })
  })

  test('that the server cannot decide is decided by posture', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    const found = collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.last().answer(() => ({ status: 503, error: 'RULES_ABSENT', detail: 'none' }))
    expect(found).toMatchObject([POSTURE])
  })

  test('that the server cannot decide, and no other of its list, is a change of state', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    const absent = { status: 503, error: 'RULES_ABSENT', detail: 'There are no rules yet.' }
    for (const answer of [absent, absent, DECISION]) {
      collect([limiter.check(user('u1'))])
      await server.endTurn()
      await server.last().answer(() => answer)
    }
    expect(server.logged).toEqual([
      'sluice: remote limiter: http://127.0.0.1:8081 does not answer: RULES_ABSENT: There are no rules yet.; decided by posture open',
      'sluice: remote limiter: http://127.0.0.1:8081 answers again',
    ])
    expect(limiter.stats).toMatchObject({
      byPosture: 2,
      lastFailure: 'RULES_ABSENT: There are no rules yet.',
    })
  })

  test('is sent without a receipt option that the server would refuse its list for', async () => {
    const server = new VirtualServer()
    collect([server.limiter().check(user('u1'), { receipt: null as never })])
    await server.endTurn()
    expect(server.last().items).toEqual([{ attributes: { user: 'u1' }, policies: true }])
  })

  test.each([
    [{ attributes: null }, 'CALL_INVALID'],
    [{ attributes: { user: {} } }, 'CALL_INVALID'],
    [{ attributes: { user: 2 ** 53 } }, 'CALL_INVALID'],
    [{ attributes: { user: 'x'.repeat(8193) } }, 'CALL_ATTRIBUTE_TOO_LONG'],
    [{ attributes: { ['n'.repeat(65)]: 'x' } }, 'CALL_INVALID'],
    [{ attributes: {}, cost: -1 }, 'CALL_COST_INVALID'],
  ])('is not sent if the server would refuse its list: %j', async (call, code) => {
    const server = new VirtualServer()
    const check = server.limiter().check(call as never)
    await expect(check).rejects.toMatchObject({ code, status: 400 })
    await server.endTurn()
    expect(server.requests).toEqual([])
  })
})

describe('a refund', () => {
  test('that was not confirmed rejects, and is not sent again', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50 })
    const refund = limiter.refund('1~a')
    const rejected = expect(refund).rejects.toMatchObject({ code: 'STORE_FAILED', status: 503 })
    await server.endTurn()
    await server.advance(50)
    await rejected
    await server.endTurn()
    expect(server.requests).toHaveLength(1)
  })

  test('of a damaged receipt rejects with the problem of the server', async () => {
    const server = new VirtualServer()
    const rejected = expect(server.limiter().refund('x')).rejects.toMatchObject({
      code: 'RECEIPT_INVALID',
      message: 'damaged',
    })
    await server.endTurn()
    await server.last().answer(() => ({ status: 400, error: 'RECEIPT_INVALID', detail: 'damaged' }))
    await rejected
  })
})

describe('close', () => {
  test('waits for what was sent, and refuses later calls', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter()
    const found = collect([limiter.check(user('u1'))])
    let isClosed = false
    const closing = limiter.close().then(() => (isClosed = true))
    await server.endTurn()
    expect(isClosed).toBe(false)
    await server.last().answer()
    await closing
    expect(found).toMatchObject([{ source: 'store' }])
    await expect(limiter.check(user('u1'))).rejects.toMatchObject({ code: 'LIMITER_CLOSED' })
  })

  test('stops requests whose answer is late', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50 })
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    const closing = limiter.close()
    await server.advance(50)
    await closing
    expect(server.last().isAborted()).toBe(true)
  })
})

describe('a late answer', () => {
  test('leaves no timer behind that keeps the process alive', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50 })
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.advance(50)
    expect(server.timers).toBe(1)
    await server.last().answer()
    expect(server.timers).toBe(0)
  })

  test('that close no longer waits for leaves no timer behind either', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50 })
    collect([limiter.check(user('u1'))])
    await server.endTurn()
    await server.advance(50)
    await limiter.close()
    expect([server.timers, server.last().isAborted()]).toEqual([0, true])
  })
})

describe('a runtime that drops a request with its timers', () => {
  test('does not use up the bounds for good', async () => {
    const server = new VirtualServer()
    const limiter = server.limiter({ deadlineMs: 50, maxPending: 2 })
    const dropped = collect([limiter.check(user('u1')), limiter.check(user('u2'))])
    await server.endTurn()
    expect(await limiter.check(user('u3'))).toMatchObject(POSTURE)
    // Time passes without the timers.
    server.nowMs += 1100
    const found = collect([limiter.check(user('u4'))])
    await server.endTurn()
    await server.last().answer()
    expect(found).toMatchObject([{ source: 'store' }])
    expect(dropped).toMatchObject([POSTURE, POSTURE])
  })
})

describe('a decision', () => {
  test('has the form of the API as JSON, and the methods that headers need', async () => {
    const server = new VirtualServer()
    const found = collect([server.limiter().check(user('u1'))])
    await server.endTurn()
    const policy = { ...DECISION, name: 'per-user', algorithm: 'token-bucket', windowMs: 60_000 }
    const other = { ...policy, name: 'day', rule: 'day', windowMs: 500, remaining: 9 }
    const budget = { ...policy, name: 'budget', window: 'month', zone: 'UTC' }
    await server.last().answer(() => ({ ...DECISION, policies: [policy, other, budget] }))
    const [decision] = found as RemoteDecision[]
    expect(JSON.parse(JSON.stringify(decision))).toEqual(DECISION)
    // Windows of a calendar differ in length, so none is shown.
    expect(decision?.policyField()).toBe('"per-user";q=2;w=60, "day";q=2, "budget";q=2')
    expect(decision?.leftField(0)).toBe('"per-user";r=1;t=30, "day";r=9;t=30, "budget";r=1;t=30')
    const rules: string[] = []
    decision?.eachRule((rule, outcome) => rules.push(`${rule} ${outcome}`))
    expect(rules).toEqual(['per-user allowed', 'day allowed'])
  })
})

test('a field that later servers add does not replace a method of a decision', async () => {
  const server = new VirtualServer()
  const found = collect([server.limiter().check(user('u1'))])
  await server.endTurn()
  await server.last().answer(() => ({ ...DECISION, tags: ['new'], bound: {}, staleMs: 5 }))
  const [decision] = found as RemoteDecision[]
  expect([decision?.tags(), decision?.bound(), decision?.staleMs]).toEqual([[], undefined, 5])
})

describe('options', () => {
  const url = 'http://127.0.0.1:8081'
  test.each([
    [{ url: 'x' }, 'url: found "x"'],
    [{ url: undefined }, 'url: found undefined; accepted: http://'],
    [{ url, token: null }, 'token: found null; accepted: text'],
    [{ url: 'http://sluice.example.com', token: 'secret' }, 'where anybody on the way could read'],
    [{ url, deadlineMs: 0 }, 'deadlineMs: found 0; accepted: 1 to 60000'],
    [{ url, posture: 'local' }, "posture: found local; accepted: 'open' or 'closed'"],
    [{ url, maxPending: 0.5 }, 'maxPending: found 0.5; accepted: a whole number'],
    [{ url, fallback: {} }, 'fallback: found one without check; accepted: a limiter'],
    [
      { url, posture: 'open', fallback: { check: () => {} } },
      'fallback: found one beside posture; accepted: either of them',
    ],
  ])('%j are refused with their name', (options, message) => {
    expect(() => remoteLimiter(options as never)).toThrow(message)
  })
})
