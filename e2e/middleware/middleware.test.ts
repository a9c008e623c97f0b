/**
 * All middlewares on real servers: the same traffic gets the same decisions, headers and bodies, as
 * from the gateway.
 */
import { writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  type Call,
  createLimiter,
  type Decision,
  type ReserveOptions,
} from '../../packages/limiter/src/index.js'
import { sluice as nodeSluice } from '../../packages/limiter/src/middleware/node.js'
import { call, type CallOptions, newCaller } from '../http-call.test-helper.js'
import { makeFolder } from '../process.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'
import {
  ADAPTERS,
  type AdapterOptions,
  type App,
  DECODING,
  type RunningAdapter,
} from './adapters.test-helper.js'

const RULES = `
rules:
  - id: per-address
    match: { path: /v1/* }
    by: [ip]
    limits: [5/day, { algorithm: sliding-window-counter, max: 100, window: 30d, name: monthly }]
  - id: orders
    match: { method: [GET, HEAD], path: /v1/orders/:id }
    by: [ip]
    limits: [3/day]
`

interface TrafficCall extends Omit<CallOptions, 'from'> {
  readonly target: string
}

const get = (target: string): TrafficCall => ({ target })

/** Each line is sent by a caller of its own. */
const TRAFFIC: readonly (readonly [story: string, calls: readonly TrafficCall[]])[] = [
  ['calls over a limit', Array.from({ length: 5 }, () => get('/v1/orders/1'))],
  [
    'other spellings of one path',
    ['/v1/orders/1', '/V1/Orders/2/', '/v1/%6frders/3?a=1', '/v1/orders/4'].map(get),
  ],
  ['ambiguous paths', ['/v1//orders', '/v1/orders;a/1', '/v1/%2f'].map(get)],
  ['a path that cannot be decoded', [get('/v1/%zz')]],
  ['a path without a rule', [get('/other')]],
  [
    'a method that only one rule limits',
    Array.from({ length: 6 }, () => ({ target: '/v1/orders/1', method: 'POST', body: 'a=1' })),
  ],
  [
    'HEAD, which has no body',
    Array.from({ length: 4 }, () => ({ target: '/v1/orders/1', method: 'HEAD' })),
  ],
  [
    'an address that the caller claims',
    [1, 2, 3, 4].map((last) => ({
      target: '/v1/orders/1',
      headers: { 'x-forwarded-for': `203.0.113.${last}` },
    })),
  ],
]

const COMPARED = [
  'ratelimit-policy',
  'ratelimit',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'retry-after',
  'cache-control',
]

/** Times differ by when a call was made; everything else must be equal. */
const withoutTimes = (text: string) =>
  text
    .replaceAll(/;t=\d+/g, ';t=…')
    .replaceAll(/after \d+ second/g, 'after … second')
    .replaceAll(/"retry_after_seconds":\d+/g, '"retry_after_seconds":…')

async function answersOf(port: number, calls: readonly TrafficCall[]) {
  const from = newCaller()
  const answers = []
  for (const { target, ...options } of calls) {
    const { status, headers, body } = await call(port, target, { ...options, from })
    const sent = COMPARED.flatMap((name) => {
      const value = headers[name]?.toString()
      if (value === undefined) return []
      const isTime = name === 'x-ratelimit-reset' || name === 'retry-after'
      return [`${name}: ${isTime ? '…' : withoutTimes(value)}`]
    })
    // The bodies of admitted calls are those of the application.
    const isOwn = status >= 400
    const type = isOwn ? headers['content-type'] : undefined
    answers.push({ status, sent, type, body: isOwn ? withoutTimes(body) : undefined })
  }
  return answers
}

const app: App = async (url) => {
  if (url.startsWith('/throw')) throw new Error('a handler that fails')
  const status = /^\/status\/(\d+)/.exec(url)?.[1]
  return { status: Number(status ?? 200), body: 'hello' }
}

const BY_ADDRESS = [{ id: 'per-address', by: ['ip'], limits: ['2/day'] }]

let gateway: RunningServer

beforeAll(async () => {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  gateway = await start({ SLUICE_RULES: 'rules.yaml' }, folder)
})
afterAll(() => gateway.program.stop())

describe.each(ADAPTERS)('the middleware for %s', (name, startAdapter) => {
  let running: RunningAdapter | undefined

  const serve = async (options: AdapterOptions, own: App = app): Promise<number> => {
    running = await startAdapter(options, own)
    return running.port
  }
  /** The statuses of calls by one new caller. */
  const statuses = async (port: number, ...calls: readonly TrafficCall[]) =>
    (await answersOf(port, calls)).map(({ status }) => status)

  afterEach(async () => {
    await running?.close()
    running = undefined
  })

  test.each(TRAFFIC)('answers %s as the gateway does', async (story, calls) => {
    const port = await serve({ rules: RULES })
    if (story === 'a path that cannot be decoded' && DECODING.includes(name)) {
      return expect(await statuses(port, ...calls)).toEqual([400])
    }
    const expected = await answersOf(Number(new URL(gateway.gateway).port), calls)
    expect(await answersOf(port, calls)).toEqual(expected)
  })

  test('lets no call escape a rule by dot segments', async () => {
    // A Fetch runtime resolves them before anything sees the path; elsewhere they are refused.
    const port = await serve({ rules: RULES })
    const found = await statuses(port, ...Array(4).fill(get('/x/../v1/orders/%2e/1')))
    expect([400, 429]).toContain(found.at(-1))
  })

  test('reports times that agree with the wall clock', async () => {
    const port = await serve({ rules: BY_ADDRESS })
    const from = newCaller()
    for (const _ of [1, 2]) await call(port, '/', { from })
    const { headers } = await call(port, '/', { from })
    const nowSeconds = Date.now() / 1000
    expect(Number(headers['x-ratelimit-reset'])).toBeGreaterThan(nowSeconds + 86_000)
    expect(Number(headers['x-ratelimit-reset'])).toBeLessThan(nowSeconds + 86_402)
    expect(Number(headers['retry-after'])).toBeGreaterThan(43_000)
    expect(Number(headers['retry-after'])).toBeLessThanOrEqual(43_200)
  })

  test('counts the address that a trusted proxy forwards', async () => {
    const port = await serve({ rules: BY_ADDRESS, trustedProxies: ['127.0.0.0/8'] })
    const by = (address: string) => ({ target: '/', headers: { 'x-forwarded-for': address } })
    const forwarded = [by('203.0.113.1'), by('203.0.113.1'), by('198.51.100.9, 203.0.113.1')]
    expect(await statuses(port, ...forwarded)).toEqual([200, 200, 429])
    expect(await statuses(port, by('203.0.113.2'))).toEqual([200])
  })

  test('gives the decision to the handler', async () => {
    const seen: (Decision | undefined)[] = []
    const decided: Decision[] = []
    const port = await serve(
      { rules: BY_ADDRESS, onDecision: (decision) => void decided.push(decision) },
      async (_url, decision) => {
        seen.push(decision)
        return { status: 200, body: '' }
      },
    )
    await statuses(port, get('/'), get('/'), get('/'))
    expect(seen.map((decision) => decision?.remaining)).toEqual([1, 0])
    expect(decided.map(({ allowed }) => allowed)).toEqual([true, true, false])
  })

  test('takes attributes, a cost and exceptions from functions', async () => {
    const port = await serve({
      rules: [{ id: 'per-user', by: ['user'], limits: ['10/day'] }],
      attributes: (header) => ({ user: header('x-user') }),
      cost: (header) => Number(header('x-cost') ?? 1),
      skip: (header) => header('x-skip') === 'yes',
    })
    const ann = { 'x-user': 'ann' }
    const calls: TrafficCall[] = [
      { target: '/', headers: { ...ann, 'x-cost': 10 } },
      { target: '/', headers: ann },
      { target: '/', headers: { ...ann, 'x-skip': 'yes' } },
      { target: '/', headers: { 'x-user': 'bob' } },
    ]
    expect(await statuses(port, ...calls)).toEqual([200, 429, 200, 200])
  })

  test.each([
    ['failed', ['/', '/', '/', '/status/500', '/status/404', '/'], [200, 200, 200, 500, 404, 429]],
    [
      'succeeded',
      ['/status/500', '/throw', '/throw', '/', '/', '/'],
      [500, 500, 500, 200, 200, 429],
    ],
    ['failed', ['/', '/throw', '/throw', '/'], [200, 500, 500, 429]],
  ] as const)('counts only calls that %s, for %j', async (count, targets, expected) => {
    const { refunds, limiter } = countedLimiter()
    const port = await serve({ limiter, count })
    const found: number[] = []
    const from = newCaller()
    for (const target of targets) {
      const before = refunds.count
      const { status } = await call(port, target, { from })
      found.push(status)
      // The units are given back right after the answer was sent.
      const isGivenBack = status !== 429 && status < 400 !== (count === 'succeeded')
      if (isGivenBack) await refunds.reach(before + 1)
    }
    expect(found).toEqual(expected)
  })

  test('sends an own answer to a refused call, with the headers of the refusal', async () => {
    const port = await serve({ rules: BY_ADDRESS, refusalText: 'slow down' })
    const from = newCaller()
    for (const _ of [1, 2]) await call(port, '/', { from })
    const { status, headers, body } = await call(port, '/', { from })
    expect({ status, body }).toEqual({ status: 429, body: 'slow down' })
    expect(headers['retry-after']).toBeDefined()
    expect(headers['content-type']).not.toBe('application/problem+json')
  })

  test('sends the headers of older drafts, or none', async () => {
    const port = await serve({ rules: BY_ADDRESS, headers: { standard: 'draft-7', legacy: false } })
    const { headers } = await call(port, '/', { from: newCaller() })
    expect(headers['ratelimit-policy']).toBe('2;w=86400')
    expect(headers['ratelimit']).toMatch(/^limit=2, remaining=1, reset=\d+$/)
    expect(headers['x-ratelimit-limit']).toBeUndefined()
  })

  test('holds a delayed call until its time', async () => {
    const port = await serve({
      rules: [
        {
          id: 'even',
          by: ['ip'],
          limits: [{ algorithm: 'leaky-bucket', max: 5, window: '1s', queue: 3 }],
        },
      ],
    })
    const from = newCaller()
    const startedMs = performance.now()
    const answers = await Promise.all([1, 2, 3].map(() => call(port, '/', { from })))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(350)
  })

  test('refuses a delayed call at once where calls are not held', async () => {
    const port = await serve({
      rules: [
        {
          id: 'even',
          by: ['ip'],
          limits: [{ algorithm: 'leaky-bucket', max: 1, window: '1h', queue: 3 }],
        },
      ],
      hold: false,
    })
    expect(await statuses(port, get('/'), get('/'))).toEqual([200, 429])
  })

  test('gives back the place of a held call whose client leaves', async () => {
    const { refunds, limiter } = countedLimiter([
      {
        id: 'even',
        by: ['ip'],
        limits: [{ algorithm: 'leaky-bucket', max: 1, window: '1h', queue: 2 }],
      },
    ])
    const delayed: Decision[] = []
    const port = await serve({ limiter, onDecision: (decision) => void delayed.push(decision) })
    const from = newCaller()
    await call(port, '/', { from })
    const socket = connect({ host: '127.0.0.1', port, localAddress: from })
    socket.on('error', () => {})
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    while (delayed.length < 2) await new Promise((resolve) => setTimeout(resolve, 5))
    expect(delayed[1]?.delayMs).toBeGreaterThan(0)
    socket.destroy()
    await refunds.reach(1)
    expect(refunds.count).toBe(1)
  })

  test.each([
    ['closed', 500],
    ['open', 200],
  ] as const)('answers by its posture, %s, if the limiter fails', async (posture, expected) => {
    const errors: string[] = []
    const port = await serve({
      limiter: { check: () => Promise.reject(new Error('no limiter today')) },
      posture,
      logger: { warn: () => {}, error: (message) => void errors.push(message) },
    })
    expect(await statuses(port, get('/'), get('/'))).toEqual([expected, expected])
    expect(errors).toEqual(['sluice: request not decided: Error: no limiter today'])
  })

  test('answers 500 if attributes reject without a reason', async () => {
    const port = await serve({ rules: BY_ADDRESS, attributes: () => Promise.reject() as never })
    expect(await statuses(port, get('/'))).toEqual([500])
  })

  test('serves no more calls to clients that reset them', async () => {
    let served = 0
    const port = await serve({ rules: BY_ADDRESS }, async () => {
      served++
      return { status: 200, body: 'hello' }
    })
    const from = newCaller()
    for (let i = 0; i < 20; i++) await sendAndReset(port, from)
    expect(await statuses(port, get('/'))).toEqual([200])
    expect(served).toBeLessThanOrEqual(3)
  })

  test('answers 500 if a function of the user throws, and goes on', async () => {
    const port = await serve({
      rules: BY_ADDRESS,
      attributes: (header) => {
        if (header('x-fail') === 'yes') throw new Error('no attributes')
        return {}
      },
    })
    const failing = { target: '/', headers: { 'x-fail': 'yes' } }
    expect(await statuses(port, failing, get('/'), failing)).toEqual([500, 200, 500])
  })
})

test.each([
  ['ip', 400],
  ['user', 200],
])('a Unix domain socket with a rule by %s gets %i', async (by, expected) => {
  const limited = nodeSluice({
    rules: [{ id: 'rule', by: [by], limits: ['2/day'] }],
    attributes: () => ({ user: 'ann' }),
    logger: { warn: () => {}, error: () => {} },
  })
  const server = createServer(limited((_, response) => response.end('hello')))
  const socketPath = join(makeFolder(), 'socket')
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  const status = await new Promise((resolve) => {
    request({ socketPath }, (response) => resolve(response.resume().statusCode)).end()
  })
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await limited.close()
  expect(status).toBe(expected)
})

/** Sends a request, and resets the connection before it can be answered. */
function sendAndReset(port: number, from: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, localAddress: from })
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n', () => socket.resetAndDestroy())
  })
}

/** A limiter whose refunds and cancelled reservations can be waited for. */
function countedLimiter(rules: object = BY_ADDRESS) {
  const limiter = createLimiter({ rules })
  const refunds = {
    count: 0,
    reach: async (count: number) => {
      while (refunds.count < count) await new Promise((resolve) => setTimeout(resolve, 5))
    },
  }
  return {
    refunds,
    limiter: {
      check: limiter.check.bind(limiter),
      decide: limiter.decide.bind(limiter),
      refund: async (receipt: string) => {
        await limiter.refund(receipt)
        refunds.count++
      },
      reserve: async (reserved: Call, options?: ReserveOptions) => {
        const reservation = await limiter.reserve(reserved, options)
        const cancel = reservation.cancel.bind(reservation)
        return Object.assign(reservation, {
          cancel: async () => {
            const settlement = await cancel()
            refunds.count++
            return settlement
          },
        })
      },
    },
  }
}
