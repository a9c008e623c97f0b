import { connect } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  startTestServer,
  type TestServer,
  type TestServerOptions,
} from '../../serve.test-helper.js'
import { sendRequest } from './forward.test-helper.js'

let server: TestServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

async function start(options: TestServerOptions): Promise<TestServer> {
  server = await startTestServer(options)
  return server
}

const perAddress = (limits: unknown[], more: object = {}) => [
  { id: 'address', by: ['ip'], limits, ...more },
]
const KEY = 'key-of-acme-0123456789'
const IDENTITY = { keys: [{ key: KEY, user: 'acme', plan: 'pro' }] }
const SOON = { timeout: 20_000, interval: 20 }
const json = ({ body }: { readonly body: Buffer }): unknown => JSON.parse(body.toString())

describe('the gateway', () => {
  test('forwards calls within the limit, with headers that count down', async () => {
    const { gatewayPort, calls } = await start({ rules: perAddress(['3/minute']) })
    const answers = []
    for (let i = 0; i < 3; i++)
      answers.push(await sendRequest(gatewayPort, { path: `/v1/orders/${i}?q=1` }))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(answers.map(({ headers }) => headers['x-ratelimit-remaining'])).toEqual(['2', '1', '0'])
    expect(answers[0]?.headers['ratelimit-policy']).toBe('"address";q=3;w=60')
    expect(calls.map(({ url }) => url)).toEqual([
      '/v1/orders/0?q=1',
      '/v1/orders/1?q=1',
      '/v1/orders/2?q=1',
    ])
  })

  test('sheds the least important calls with the status of its settings, and trusts no priority of a client', async () => {
    const fleet = { id: 'fleet', by: [], limits: ['2/hour'], headroom: { critical: '50%' } }
    const { gatewayPort, calls, lines } = await start({
      rules: JSON.stringify({
        priorities: ['critical', 'reads'],
        classify: [{ match: { path: '/pay' }, as: 'critical' }],
        rules: [{ ...fleet, protects: 'capacity' }],
      }),
      config: { refusals: { shedStatus: 503 } },
    })
    expect((await sendRequest(gatewayPort, { path: '/list' })).status).toBe(200)
    const headers = { 'x-priority': 'critical' }
    const shed = await sendRequest(gatewayPort, { path: '/list', headers })
    expect(shed.status).toBe(503)
    expect(Object.keys(shed.headers).filter((name) => name.includes('ratelimit'))).toEqual([])
    expect(Number(shed.headers['retry-after'])).toBeLessThanOrEqual(5)
    expect(json(shed)).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      status: 503,
    })
    expect((await sendRequest(gatewayPort, { path: '/pay' })).status).toBe(200)
    expect(calls).toHaveLength(2)
    const refused = { msg: 'refused', rule: 'fleet', reason: 'shed', priority: 'reads' }
    expect(lines).toContainEqual(expect.objectContaining(refused))
  })

  test('refuses calls over the limit with a complete response, and forwards none of them', async () => {
    const { gatewayPort, calls, lines } = await start({ rules: perAddress(['1/minute']) })
    const since = performance.now()
    await sendRequest(gatewayPort, {})
    const refused = await sendRequest(
      gatewayPort,
      { method: 'POST', path: '/v1/orders' },
      'x'.repeat(10_000),
    )
    expect(refused.status).toBe(429)
    const seconds = Number(refused.headers['retry-after'])
    expectLeft(seconds, 60, since)
    expect(refused.headers).toMatchObject({
      'ratelimit-policy': '"address";q=1;w=60',
      ratelimit: `"address";r=0;t=${seconds}`,
      'x-ratelimit-limit': '1',
      'x-ratelimit-remaining': '0',
      'cache-control': 'no-store',
      'content-type': 'application/problem+json',
    })
    expect(json(refused)).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Quota Exceeded',
      status: 429,
      detail: `Too many requests. Retry after ${seconds} seconds.`,
      'violated-policies': ['address'],
      error: 'rate_limited',
      retry_after_seconds: seconds,
    })
    expect(calls).toHaveLength(1)
    expect(lines.filter(({ msg }) => msg === 'refused')).toMatchObject([
      { rule: 'address', way: 'gateway', method: 'POST', path: '/v1/orders' },
    ])
  })

  test('admits a caller again after exactly the time it reported', async () => {
    const { gatewayPort } = await start({ rules: perAddress(['1/second']) })
    let refused = await sendRequest(gatewayPort, {})
    // The second call is over the limit, unless a slow machine took a second for it.
    for (let i = 0; i < 20 && refused.status === 200; i++)
      refused = await sendRequest(gatewayPort, {})
    expect(refused.headers['retry-after']).toBe('1')
    await new Promise((resolve) => setTimeout(resolve, 1000))
    expect((await sendRequest(gatewayPort, {})).status).toBe(200)
  })

  test('marks a call over a tagged shadow rule, and removes the client’s own mark', async () => {
    const { gatewayPort, calls } = await start({
      rules: [
        { id: 'trial', by: ['ip'], limits: ['1/minute'], mode: 'shadow', tag: true },
        { id: 'quiet', by: ['ip'], limits: ['1/minute'], mode: 'shadow' },
      ],
    })
    for (let i = 0; i < 2; i++) {
      const answer = await sendRequest(gatewayPort, {
        headers: { 'X-Sluice-Over': 'mine', x_sluice_over: 'x' },
      })
      expect([answer.status, answer.headers.ratelimit]).toEqual([200, undefined])
    }
    expect(calls.map(({ headers }) => headers['x-sluice-over'])).toEqual([undefined, 'trial'])
    expect(calls.flatMap(({ headers }) => Object.keys(headers))).not.toContain('x_sluice_over')
  })

  test('counts a known key by its user, and all unknown keys of an address by the address', async () => {
    const { gatewayPort } = await start({
      config: { identity: IDENTITY },
      rules: [
        { id: 'user', by: ['user'], limits: ['5/minute'] },
        { id: 'net', match: { where: { user: null } }, by: ['ip'], limits: ['2/minute'] },
      ],
    })
    const status = async (key: string) =>
      (await sendRequest(gatewayPort, { headers: { 'x-api-key': key } })).status
    expect([
      await status('invented-1'),
      await status('invented-2'),
      await status('invented-3'),
    ]).toEqual([200, 200, 429])
    expect(await status(KEY)).toBe(200)
  })

  test('requires a user on the configured paths, after the call was counted', async () => {
    const { gatewayPort, calls } = await start({
      config: { identity: IDENTITY, gateway: { requireUser: ['/v1/*'] } },
      rules: perAddress(['2/minute'], { match: { where: { user: null } } }),
    })
    const first = await sendRequest(gatewayPort, { path: '/V1/orders' })
    expect([
      first.status,
      first.headers['www-authenticate'],
      first.headers['x-ratelimit-remaining'],
    ]).toEqual([401, 'ApiKey header="x-api-key"', '1'])
    expect(
      (await sendRequest(gatewayPort, { path: '/v1/orders', headers: { 'x-api-key': KEY } }))
        .status,
    ).toBe(200)
    expect((await sendRequest(gatewayPort, { path: '/public' })).status).toBe(200)
    expect((await sendRequest(gatewayPort, { path: '/v1/orders' })).status).toBe(429)
    expect(calls).toHaveLength(2)
  })

  test('chooses the upstream of the longest prefix, by the canonical path', async () => {
    const { gatewayPort } = await start({
      env: { SLUICE_UPSTREAM: undefined },
      config: {
        gateway: {
          upstreams: [
            { prefix: '/down', url: 'http://127.0.0.1:1' },
            { prefix: '/down/under', url: 'http://127.0.0.1:2' },
          ],
        },
      },
    })
    const statuses = []
    for (const path of ['/down', '/down/x', '/%64own/x', '/downtown', '/']) {
      statuses.push((await sendRequest(gatewayPort, { path })).status)
    }
    expect(statuses).toEqual([502, 502, 502, 404, 404])
  })

  test('adds its headers to the upstream’s errors and to its own', async () => {
    const { gatewayPort } = await start({
      rules: perAddress(['9/minute']),
      upstream: (request, response) => {
        if (request.url === '/reset') request.socket.destroy()
        else response.writeHead(503, { 'x-ratelimit-limit': '7' }).end('busy')
      },
    })
    const busy = await sendRequest(gatewayPort, {})
    const reset = await sendRequest(gatewayPort, { path: '/reset', method: 'POST' })
    expect([busy.status, busy.headers['x-ratelimit-limit'], busy.body.toString()]).toEqual([
      503,
      '9',
      'busy',
    ])
    expect([reset.status, reset.headers['x-ratelimit-remaining']]).toEqual([502, '7'])
  })

  test('sends no rate limit headers with headers: false, except on a refusal', async () => {
    const { gatewayPort } = await start({
      rules: perAddress(['1/minute']),
      config: { gateway: { headers: false } },
    })
    const since = performance.now()
    expect((await sendRequest(gatewayPort, {})).headers).not.toHaveProperty('ratelimit')
    const refused = await sendRequest(gatewayPort, {})
    expect(refused.status).toBe(429)
    expectLeft(Number(refused.headers['retry-after']), 60, since)
  })
})

/** Checks that the seconds left are `of`, minus at most the time since then. */
function expectLeft(seconds: number, of: number, since: number): void {
  expect(seconds).toBeLessThanOrEqual(of)
  expect(seconds).toBeGreaterThanOrEqual(Math.ceil(of - (performance.now() - since) / 1000))
}

describe('Expect: 100-continue', () => {
  test('is answered when the call is admitted, and not if it is refused', async () => {
    const { gatewayPort, calls } = await start({ rules: perAddress(['1/minute']) })
    const exchange = (bytes: string) =>
      new Promise<string>((resolve) => {
        const socket = connect(gatewayPort, '127.0.0.1')
        let text = ''
        socket.on('data', (chunk: Buffer) => {
          text += chunk.toString()
          if (text.startsWith('HTTP/1.1 100')) socket.write('hello')
          if (/^HTTP\/1.1 (200|429|417)[^]*\r\n\r\n/m.test(text)) socket.destroy()
        })
        socket.on('close', () => resolve(text))
        socket.write(bytes)
      })
    const head = 'POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: '
    expect(await exchange(`${head}100-continue\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 100 [^]*HTTP\/1.1 200 /,
    )
    expect(calls[0]?.headers).not.toHaveProperty('expect')
    expect(await exchange(`${head}100-continue\r\n\r\n`)).toMatch(/^HTTP\/1.1 429 /)
    expect(await exchange(`${head}tea\r\n\r\n`)).toMatch(/^HTTP\/1.1 417 /)
    expect(calls).toHaveLength(1)
  })
})

describe('delayed calls', () => {
  const paced = perAddress([{ algorithm: 'leaky-bucket', max: 5, window: '1s', queue: 10 }])

  test('are held and sent evenly spaced', async () => {
    const times: number[] = []
    const { gatewayPort } = await start({
      rules: paced,
      upstream: (_, response) => {
        times.push(performance.now())
        response.end('ok')
      },
    })
    const lateness = watchLateness()
    const since = performance.now()
    const answers = await Promise.all([1, 2, 3, 4].map(() => sendRequest(gatewayPort, {})))
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    const lateMs = lateness.end()
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0))
    // If this process was suspended, one call is late and the next follows sooner.
    for (const gap of gaps) expect(gap).toBeGreaterThan(150 - lateMs)
    for (const [turn, time] of times.entries()) {
      expect(time - since).toBeGreaterThan(turn * 200 - 50)
    }
  })

  test('free their place when their client disconnects', async () => {
    const { gatewayPort, adminPort, calls } = await start({
      rules: perAddress([
        { algorithm: 'leaky-bucket', max: 1, window: '10s', queue: 2, maxWait: '1m' },
      ]),
    })
    await sendRequest(gatewayPort, {})
    const held = async () => {
      const { body } = await sendRequest(adminPort, { path: '/metrics' })
      return Number(/^sluice_held_calls (\d+)$/m.exec(body.toString())?.[1])
    }
    const leavers = [1, 2].map(() => connect(gatewayPort, '127.0.0.1'))
    for (const leaver of leavers) leaver.write('GET /held HTTP/1.1\r\nHost: a\r\n\r\n')
    await vi.waitFor(async () => expect(await held()).toBe(2), SOON)
    expect((await sendRequest(gatewayPort, {})).status).toBe(429)
    for (const leaver of leavers) leaver.destroy()
    await vi.waitFor(async () => expect(await held()).toBe(0), SOON)
    const limits = (await sendRequest(gatewayPort, { path: '/_sluice/limits' })).body.toString()
    expect(JSON.parse(limits)).toMatchObject({ limits: [{ remaining: 2 }] })
    expect(calls).toHaveLength(1)
  })

  test('that were pipelined are all dropped when their client disconnects', async () => {
    const { gatewayPort, adminPort, calls } = await start({
      rules: perAddress([
        { algorithm: 'leaky-bucket', max: 2, window: '1s', queue: 9, maxWait: '1m' },
      ]),
    })
    const held = async () => {
      const { body } = await sendRequest(adminPort, { path: '/metrics' })
      return Number(/^sluice_held_calls (\d+)$/m.exec(body.toString())?.[1])
    }
    const socket = connect(gatewayPort, '127.0.0.1')
    socket.write('GET /held HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(6))
    // One call is sent at once, and on a slow machine perhaps a second; the others are held.
    await vi.waitFor(async () => expect((await held()) + calls.length).toBe(6), SOON)
    socket.destroy()
    await vi.waitFor(async () => expect(await held()).toBe(0), SOON)
    const sent = calls.length
    expect(sent).toBeLessThan(6)
    // The delays of all held calls end, and no client is there.
    await new Promise((resolve) => setTimeout(resolve, 600))
    expect(calls).toHaveLength(sent)
  })

  test('are refused if no more may be held', async () => {
    const slow = { algorithm: 'leaky-bucket', max: 1, window: '1m', queue: 10, maxWait: '10m' }
    const { gatewayPort } = await start({
      rules: perAddress([slow]),
      config: { gateway: { maxHeld: 0 } },
    })
    expect((await sendRequest(gatewayPort, {})).status).toBe(200)
    expect((await sendRequest(gatewayPort, {})).status).toBe(429)
  })
})

/** The total time that this process was suspended. */
function watchLateness() {
  const EVERY_MS = 5
  const LATE_MS = 10
  let lateMs = 0
  let last = performance.now()
  const sample = () => {
    const now = performance.now()
    const late = now - last - EVERY_MS
    if (late > LATE_MS) lateMs += late
    last = now
  }
  const timer = setInterval(sample, EVERY_MS)
  return {
    end() {
      clearInterval(timer)
      sample()
      return lateMs
    },
  }
}

describe('GET /_sluice/limits', () => {
  test('returns the caller its limits and charges none of them', async () => {
    const { gatewayPort, calls } = await start({
      config: { identity: IDENTITY },
      rules: [
        {
          id: 'orders',
          match: { method: 'GET', path: '/v1/orders' },
          by: ['user'],
          limits: ['5/minute'],
        },
        { id: 'net', match: { where: { user: null } }, by: ['ip'], limits: ['7/minute'] },
      ],
    })
    const headers = { 'x-api-key': KEY }
    await sendRequest(gatewayPort, { path: '/v1/orders', headers })
    for (let i = 0; i < 3; i++) {
      const answer = await sendRequest(gatewayPort, { path: '/_Sluice/limits/', headers })
      expect(json(answer)).toMatchObject({
        limits: [{ rule: 'orders', limit: 5, remaining: 4, windowMs: 60_000 }],
      })
      expect(answer.headers['cache-control']).toBe('no-store')
    }
    expect(json(await sendRequest(gatewayPort, { path: '/_sluice/limits' }))).toMatchObject({
      limits: [{ rule: 'net', remaining: 7 }],
    })
    expect(calls).toHaveLength(1)
  })

  test('returns rules by route once for each route, and charges none of them', async () => {
    const { gatewayPort, calls } = await start({
      rules: JSON.stringify({
        routes: ['POST /v1/login', 'GET /v1/orders/:id'],
        rules: [{ id: 'each', by: ['ip', 'route'], limits: ['5/minute'] }],
      }),
    })
    await sendRequest(gatewayPort, { path: '/v1/orders/7' })
    for (let i = 0; i < 3; i++) {
      expect(json(await sendRequest(gatewayPort, { path: '/_sluice/limits' }))).toMatchObject({
        limits: [
          { rule: 'each', route: 'POST /v1/login', remaining: 5 },
          { rule: 'each', route: 'GET /v1/orders/:id', remaining: 4 },
        ],
      })
    }
    expect(calls).toHaveLength(1)
  })

  test('returns the limits of the call that the query describes', async () => {
    const { gatewayPort } = await start({
      rules: JSON.stringify({
        routes: ['POST /v1/login', '/*'],
        rules: [
          { id: 'each', by: ['ip', 'route'], limits: ['5/minute'] },
          { id: 'page', by: ['ip', 'path'], limits: ['3/minute'] },
          { id: 'other', match: { path: '/v2/*' }, by: ['ip'], limits: ['9/minute'] },
        ],
      }),
    })
    await sendRequest(gatewayPort, { path: '/v1/login', method: 'POST' })
    const limitsOf = async (query: string) =>
      json(await sendRequest(gatewayPort, { path: `/_sluice/limits?${query}` }))
    const named = {
      limits: [
        { rule: 'each', remaining: 4 },
        { rule: 'page', remaining: 2 },
      ],
    }
    expect(await limitsOf('method=post&path=/v1/login')).toMatchObject(named)
    expect(await limitsOf('method=POST&path=%2Fv1%2FLogin%3Fa%3D1')).toMatchObject(named)
    expect(await limitsOf('path=/v1/login')).toMatchObject({
      limits: [
        { rule: 'each', remaining: 5 },
        { rule: 'page', remaining: 2 },
      ],
    })
    expect(await limitsOf('path=/v1/../admin')).toMatchObject({ status: 400 })
    expect(await limitsOf('path=')).toMatchObject({ status: 400 })
    expect(await limitsOf('method=POST')).toMatchObject({ status: 400 })
    expect(await limitsOf('method=GET%20/&path=/')).toMatchObject({ status: 400 })
    expect(await limitsOf('other=1')).toMatchObject({ limits: [{ rule: 'other' }, {}, {}] })
  })

  test('limits the counters that one address may read, not only its requests', async () => {
    const routes = Array.from({ length: 1000 }, (_, i) => `GET /v1/r${i}`)
    const { gatewayPort } = await start({
      rules: JSON.stringify({
        routes,
        rules: [{ id: 'each', by: ['ip', 'route'], limits: ['5/minute'] }],
      }),
    })
    const statuses: number[] = []
    for (let i = 0; i < 8; i++)
      statuses.push((await sendRequest(gatewayPort, { path: '/_sluice/limits' })).status)
    expect(statuses[0]).toBe(200)
    expect(statuses.filter((status) => status === 200).length).toBeLessThan(6)
    expect(statuses).toContain(429)
    const named = await sendRequest(gatewayPort, { path: '/_sluice/limits?path=/v1/r7' })
    expect(named.status).toBe(200)
  })

  test('cannot be used to guess keys', async () => {
    const { gatewayPort } = await start({
      config: { identity: { ...IDENTITY, apiKey: { unknown: 'refuse' } } },
      rules: [],
    })
    const statuses = new Set<number>()
    for (let i = 0; i < 40; i++) {
      const path = i % 2 === 0 ? '/_sluice/limits' : '/_sluice/other'
      statuses.add(
        (await sendRequest(gatewayPort, { path, headers: { 'x-api-key': `guess-${i}` } })).status,
      )
    }
    expect(statuses).toEqual(new Set([401, 429]))
  })

  test('has a limit of its own, accepts GET and HEAD, and nothing below /_sluice is forwarded', async () => {
    const { gatewayPort, calls } = await start({ rules: [] })
    expect(
      (await sendRequest(gatewayPort, { path: '/_sluice/limits', method: 'POST' })).status,
    ).toBe(405)
    expect((await sendRequest(gatewayPort, { path: '/_sluice/other' })).status).toBe(404)
    expect(
      (await sendRequest(gatewayPort, { path: '/%5Fsluice/limits', method: 'HEAD' })).status,
    ).toBe(200)
    const statuses = []
    for (let i = 0; i < 40; i++)
      statuses.push((await sendRequest(gatewayPort, { path: '/_sluice/limits' })).status)
    expect(statuses).toContain(429)
    expect(calls).toEqual([])
  })
})
