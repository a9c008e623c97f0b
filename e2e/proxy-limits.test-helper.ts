/** Calls within and over their limits, and the attributes that Sluice receives. */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { APP_BODY, APP_STATUS } from './upstream-app.test-helper.js'
import { callThroughProxy, exhaustLogin, rateLimitHeadersIn } from './proxy-call.test-helper.js'
import { call, newCaller } from './http-call.test-helper.js'
import { startStubSluice } from './stub-sluice.test-helper.js'
import { KEY, type ProxySetup } from './proxy-setup.test-helper.js'

const REFUSED_MS_MAX = 20_000

export function describeLimits(setup: () => ProxySetup): void {
  describe('a call within its limits', () => {
    test('gets the answer of the application and the remaining units', async () => {
      const answer = await callThroughProxy(setup(), '/shop/1', newCaller())
      expect(answer).toMatchObject({ status: APP_STATUS, body: APP_BODY })
      expect(answer.headers).toMatchObject({
        'x-app': 'yes',
        'ratelimit-policy': '"shop";q=100;w=3600',
        ratelimit: '"shop";r=99;t=3600',
        'x-ratelimit-limit': '100',
        'x-ratelimit-remaining': '99',
      })
      expect(Number(answer.headers['x-ratelimit-reset'])).toBeGreaterThan(Date.now() / 1000)
      expect(answer.headers['retry-after']).toBeUndefined()
    })

    test('leaves one unit less for the next', async () => {
      const from = newCaller()
      const left: unknown[] = []
      for (let i = 0; i < 3; i++) {
        left.push(
          (await callThroughProxy(setup(), '/shop/1', from)).headers['x-ratelimit-remaining'],
        )
      }
      expect(left).toEqual(['99', '98', '97'])
    })

    test('gets no rate limit headers of Sluice if no rule matches', async () => {
      const answer = await callThroughProxy(setup(), '/free', newCaller())
      expect(answer.status).toBe(APP_STATUS)
      expect(rateLimitHeadersIn(answer)).toEqual([])
    })

    test.each([
      ['with its length', 'x'.repeat(300_000)],
      ['in chunks', Array.from({ length: 100 }, (_, i) => `${i}`.repeat(1000))],
    ])('reaches the application with its whole body, sent %s', async (_, body) => {
      const from = newCaller()
      const answer = await callThroughProxy(setup(), '/shop/1', from, { method: 'POST', body })
      expect(answer.status).toBe(APP_STATUS)
      const sha256 = createHash('sha256').update([body].flat().join('')).digest('hex')
      expect(setup().app.requestsFrom(from)).toMatchObject([{ method: 'POST', sha256 }])
    })

    test('reaches the application with its query and its own headers', async () => {
      const from = newCaller()
      const headers = { cookie: 'a=1', origin: 'https://shop.example', authorization: 'Basic eDp5' }
      await callThroughProxy(setup(), '/shop/1?q=a%20b&q=%2F..%2F', from, { headers })
      expect(setup().app.requestsFrom(from)).toMatchObject([
        { method: 'GET', url: '/shop/1?q=a%20b&q=%2F..%2F', headers },
      ])
    })

    test('reaches an application that breaks off only once', async () => {
      const from = newCaller()
      const { status } = await callThroughProxy(setup(), '/dies', from, { method: 'POST' })
      expect(status).toBe(502)
      expect(setup().app.requestsFrom(from)).toHaveLength(1)
    })
  })

  describe('a call over its limit', () => {
    test('gets 429 with the reason and when to retry, and does not reach the application', async () => {
      const from = newCaller()
      for (let i = 0; i < 2; i++)
        expect((await callThroughProxy(setup(), '/few', from)).status).toBe(APP_STATUS)
      const answer = await callThroughProxy(setup(), '/few', from)
      expect(answer.status).toBe(429)
      expect(answer.headers).toMatchObject({
        'cache-control': 'no-store',
        'content-type': 'application/problem+json',
        'ratelimit-policy': '"few";q=2;w=3600',
        'x-ratelimit-limit': '2',
        'x-ratelimit-remaining': '0',
      })
      const seconds = Number(answer.headers['retry-after'])
      expect(seconds).toBeGreaterThan(3500)
      expect(answer.headers.ratelimit).toBe(`"few";r=0;t=${seconds}`)
      expect(JSON.parse(answer.body)).toMatchObject({
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        status: 429,
        detail: `Too many requests. Retry after ${seconds} seconds.`,
        error: 'rate_limited',
        retry_after_seconds: seconds,
      })
      expect(setup().app.requestsFrom(from)).toHaveLength(2)
    })

    test('is refused even among many at once: no more pass than the limit allows', async () => {
      const from = newCaller()
      // With fail closed, because so many at once may exceed the timeout on a busy machine.
      const { closed, app } = setup()
      const burst = Array.from({ length: 30 }, () => call(closed, '/few', { from }))
      const others = (await Promise.all(burst)).filter(({ status }) => status !== APP_STATUS)
      expect(others.length).toBeGreaterThanOrEqual(28)
      expect(app.requestsFrom(from).length).toBeLessThanOrEqual(2)
      for (const { status } of others) expect([429, 503]).toContain(status)
    })

    test('is refused even if it has a large body', async () => {
      const from = await exhaustLogin(setup())
      const body = 'x'.repeat(100_000)
      expect(
        (await callThroughProxy(setup(), '/login', from, { method: 'POST', body })).status,
      ).toBe(429)
    })

    test('passes again after the time in Retry-After', async () => {
      const from = newCaller()
      let refused = await callThroughProxy(setup(), '/brief', from)
      expect(refused.status).toBe(APP_STATUS)
      // The next is over its limit, unless this machine took a second for it: then a later one is.
      const until = Date.now() + REFUSED_MS_MAX
      while (refused.status !== 429 && Date.now() < until) {
        refused = await callThroughProxy(setup(), '/brief', from)
      }
      expect(refused.status).toBe(429)
      await sleep(Number(refused.headers['retry-after']) * 1000)
      expect((await callThroughProxy(setup(), '/brief', from)).status).toBe(APP_STATUS)
    })

    test('opens no connection to Sluice, or a flood would use up all ports', async () => {
      const sluice = await startStubSluice((response) => {
        response.writeHead(429, { 'Content-Type': 'application/problem+json', 'Retry-After': '9' })
        response.end('{"status":429}')
      })
      try {
        const patient = await setup().startProxyFor(sluice.port, { isPatient: true })
        const from = newCaller()
        for (let i = 0; i < 20; i++) expect((await call(patient, '/', { from })).status).toBe(429)
        expect(sluice.requests()).toBe(20)
        expect(sluice.connections()).toBeLessThan(4)
      } finally {
        await sluice.close()
      }
    })

    test('does not affect another address, which still passes', async () => {
      await exhaustLogin(setup())
      expect((await callThroughProxy(setup(), '/login', newCaller())).status).toBe(APP_STATUS)
    })
  })

  describe('Sluice receives', () => {
    test('the method of a call: a rule for POST counts no GET', async () => {
      const from = newCaller()
      expect((await callThroughProxy(setup(), '/orders', from, { method: 'POST' })).status).toBe(
        APP_STATUS,
      )
      expect((await callThroughProxy(setup(), '/orders', from, { method: 'POST' })).status).toBe(
        429,
      )
      expect((await callThroughProxy(setup(), '/orders', from)).status).toBe(APP_STATUS)
    })

    test('the path of a call, without the query', async () => {
      const from = await exhaustLogin(setup())
      expect((await callThroughProxy(setup(), '/login?next=/shop/1', from)).status).toBe(429)
      expect((await callThroughProxy(setup(), '/shop/1?next=/login', from)).status).toBe(APP_STATUS)
    })

    test('the key of a call: a known key is a user from any address, an unknown key is no user', async () => {
      const withKey = (key: string, from = newCaller()) =>
        callThroughProxy(setup(), '/keyed', from, { headers: { 'x-api-key': key } })
      const statuses: number[] = []
      for (let i = 0; i < 4; i++) statuses.push((await withKey(KEY)).status)
      expect(statuses).toEqual([APP_STATUS, APP_STATUS, APP_STATUS, 429])
      const from = newCaller()
      expect((await withKey('invented-1', from)).status).toBe(APP_STATUS)
      expect((await withKey('invented-2', from)).status).toBe(429)
    })

    test('the user that a path requires: without one the answer is 401 and says what to send', async () => {
      const from = newCaller()
      const answer = await callThroughProxy(setup(), '/private/1', from)
      expect(answer.status).toBe(401)
      expect(answer.headers['www-authenticate']).toContain('x-api-key')
      expect(setup().app.requestsFrom(from)).toEqual([])
      const known = await callThroughProxy(setup(), '/private/1', from, {
        headers: { 'x-api-key': KEY },
      })
      expect(known.status).toBe(APP_STATUS)
    })

    test('both values of a duplicated key, and refuses the call', async () => {
      const from = newCaller()
      const headers = { 'x-api-key': [KEY, 'another'] }
      expect((await callThroughProxy(setup(), '/keyed', from, { headers })).status).toBe(400)
      expect(setup().app.requestsFrom(from)).toEqual([])
    })
  })
}
