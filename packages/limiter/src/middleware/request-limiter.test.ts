import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import type { Call } from '@sluice/core'
import { createLimiter } from '../limiter.js'
import { memoryStore } from '../memory/memory-store.js'
import type { MiddlewareOptions } from './middleware-options.js'
import { type LimitedRequest, RequestLimiter, type RequestLimiterDeps } from './request-limiter.js'
import { WARNING_CODES, WarningLog } from './warning-log.js'

interface TestRequest {
  readonly method?: string
  readonly target?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Undefined for one; null for none. */
  readonly peer?: string | null
  readonly isGone?: boolean
}

const NOW_MS = 1_800_000_000_000
const NOTHING = { destroyed: false, once: () => {}, off: () => {} }
const PER_IP = [{ id: 'per-ip', by: ['ip'], limits: ['2/hour'] }]

function limitedOf(request: TestRequest): LimitedRequest<TestRequest> {
  const { method = 'GET', target = '/', headers = {}, peer = '192.0.2.1' } = request
  return {
    request,
    raw: request,
    context: undefined,
    method,
    target,
    client: NOTHING,
    peer: () => peer ?? undefined,
    endIfGone: () => request.isGone ?? false,
    header: (name) => headers[name],
  }
}

type TestOptions = MiddlewareOptions<TestRequest, number>

function setUp(options: TestOptions, deps: Partial<RequestLimiterDeps> = {}) {
  const logged: string[] = []
  let nowMs = NOW_MS
  const warnings = new WarningLog()
  const log = (message: string) => void logged.push(message)
  const create = (more: TestOptions) =>
    new RequestLimiter<TestRequest, number>(
      { logger: { warn: log, error: log }, ...more },
      { isSocketKnown: true, warnings, nowMs: () => nowMs, random: () => 0, ...deps },
    )
  const requests = create(options)
  return {
    requests,
    create,
    logged,
    warnings,
    admit: async (request: TestRequest = {}) => requests.admit(limitedOf(request)),
    advance: (ms: number) => {
      nowMs += ms
    },
    /** The codes of the warnings that were logged. */
    codes: () => WARNING_CODES.filter((code) => warnings.has(code)),
  }
}

describe('a decision', () => {
  test('in memory costs no promise', () => {
    const { requests } = setUp({ rules: PER_IP })
    expect(requests.admit(limitedOf({}))).toMatchObject({ kind: 'admitted' })
  })

  test('has the headers of the gateway, at the given time', async () => {
    const store = memoryStore({ clock: { now: () => NOW_MS * 1000 } })
    const { admit } = setUp({ rules: PER_IP, store })
    expect(await admit()).toMatchObject({
      headers: [
        'RateLimit-Policy',
        '"per-ip";q=2;w=3600',
        'RateLimit',
        '"per-ip";r=1;t=1800',
        'X-RateLimit-Limit',
        '2',
        'X-RateLimit-Remaining',
        '1',
        'X-RateLimit-Reset',
        String(NOW_MS / 1000 + 1800),
      ],
    })
  })

  test('of a skipped call does not exist, and the call is not counted', async () => {
    const { admit } = setUp({ rules: PER_IP, skip: ({ method }) => method === 'OPTIONS' })
    for (let i = 0; i < 3; i++) {
      expect(await admit({ method: 'OPTIONS' })).toMatchObject({ decision: undefined, headers: [] })
    }
    expect(await admit()).toMatchObject({ decision: { remaining: 1 } })
  })

  test('uses attributes that replace those of the request', async () => {
    const { admit } = setUp({
      rules: PER_IP,
      attributes: async ({ headers }) => ({ ip: headers?.['ip'] }),
    })
    for (const ip of ['a', 'b', 'c']) {
      expect(await admit({ headers: { ip } })).toMatchObject({ decision: { remaining: 1 } })
    }
  })

  test('waits for promises of libraries, which are not those of the language', async () => {
    const { admit } = setUp({
      rules: [{ id: 'per-user', by: ['user'], limits: ['2/hour'] }],
      // A promise of another realm is one that `instanceof` does not know either.
      attributes: () => runInNewContext("Promise.resolve({ user: 'ann' })"),
    })
    await admit()
    expect(await admit()).toMatchObject({ decision: { rule: 'per-user', remaining: 0 } })
  })

  test('of an IPv6 address counts its network', async () => {
    const { admit } = setUp({ rules: PER_IP, ipv6Prefix: 48 })
    await admit({ peer: '2001:db8:1:1::1' })
    expect(await admit({ peer: '2001:db8:1:2::1' })).toMatchObject({ decision: { remaining: 0 } })
  })

  test('about an ambiguous path is a refusal where a rule depends on the path', async () => {
    const byPath = [{ id: 'login', match: { path: '/login' }, by: ['ip'], limits: ['2/hour'] }]
    const { admit } = setUp({ rules: byPath })
    const refused = await admit({ target: '/a//login' })
    expect(refused).toMatchObject({ kind: 'refused', decision: undefined })
    expect(refused).toMatchObject({ response: { status: 400 } })
    expect(await setUp({ rules: PER_IP }).admit({ target: '/a//b' })).toMatchObject({
      kind: 'admitted',
    })
  })

  test('is reported to onDecision, whose errors change nothing', async () => {
    const { admit, logged } = setUp({
      rules: PER_IP,
      onDecision: () => {
        throw new Error('no metrics')
      },
    })
    expect(await admit()).toMatchObject({ kind: 'admitted' })
    expect(logged).toEqual(['sluice: onDecision: Error: no metrics'])
  })

  test('is reported to an onDecision that rejects, which is logged', async () => {
    const { admit, logged } = setUp({
      rules: PER_IP,
      onDecision: async () => {
        throw new Error('no metrics')
      },
    })
    expect(await admit()).toMatchObject({ kind: 'admitted' })
    await new Promise((resolve) => setImmediate(resolve))
    expect(logged).toEqual(['sluice: onDecision: Error: no metrics'])
  })
})

describe('a request without an address', () => {
  test.each([
    ['rules', { rules: PER_IP }],
    ['a limiter', { limiter: createLimiter({ rules: PER_IP }) }],
    ['attributes without it', { rules: PER_IP, attributes: () => ({ ip: undefined }) }],
  ])('whose client has left is abandoned, with %s', async (_, options) => {
    const { admit } = setUp(options)
    expect(await admit({ peer: null, isGone: true })).toEqual({ kind: 'abandoned' })
  })

  test('is refused and logged if a rule counts by ip', async () => {
    const { admit, logged } = setUp({ rules: PER_IP })
    const refused = await admit({ peer: null })
    expect(refused).toMatchObject({ kind: 'refused', response: { status: 400 } })
    expect(refused).toMatchObject({ response: { body: expect.stringContaining('"no_address"') } })
    expect(logged).toEqual([
      'sluice: request refused: its socket has no address, and a rule counts by ip; set address',
    ])
  })

  test('is decided if no rule counts by ip, or attributes have another one', async () => {
    const byUser = [{ id: 'per-user', by: ['user'], limits: ['2/hour'] }]
    const attributes = () => ({ user: 'ann', ip: undefined })
    expect(await setUp({ rules: byUser, attributes }).admit({ peer: null })).toMatchObject({
      decision: { remaining: 1 },
    })
    const forwarded = setUp({ rules: PER_IP, attributes: () => ({ ip: '192.0.2.7' }) })
    expect(await forwarded.admit({ peer: null })).toMatchObject({ decision: { remaining: 1 } })
  })

  test('that attributes took away from a known peer is not counted by ip', async () => {
    const { admit } = setUp({ rules: PER_IP, attributes: () => ({ ip: undefined }) })
    expect(await admit()).toMatchObject({ decision: { reason: 'unmatched' } })
  })
})

describe('units of a call', () => {
  /** What is left after one more call, once everything is given back. */
  const left = async ({ admit }: ReturnType<typeof setUp>) => {
    await new Promise((resolve) => setImmediate(resolve))
    const admission = await admit()
    return admission.kind === 'abandoned' ? undefined : admission.decision?.remaining
  }

  test.each([
    ['failed', 200, 1],
    ['failed', 399, 1],
    ['failed', 400, 0],
    ['succeeded', 200, 0],
    ['succeeded', 500, 1],
    ['failed', 'aborted', 0],
    ['succeeded', 'aborted', 0],
  ] as const)(
    'count %s, ending %s: what is left shows whether they were given back',
    async (count, ending, expected) => {
      const set = setUp({ rules: PER_IP, count })
      const admitted = await set.admit()
      if (admitted.kind !== 'admitted') throw new Error('not admitted')
      set.requests.settle(admitted, ending, {}, 0)
      expect(await left(set)).toBe(expected)
    },
  )

  test.each([
    [true, 0],
    [false, 1],
  ])('are kept if a function says so: %s', async (isCounted, expected) => {
    const set = setUp({ rules: PER_IP, count: async () => isCounted })
    const admitted = await set.admit()
    if (admitted.kind !== 'admitted') throw new Error('not admitted')
    set.requests.settle(admitted, 200, {}, 0)
    expect(await left(set)).toBe(expected)
  })

  test('are kept, and the error logged, if that function throws', async () => {
    const set = setUp({
      rules: PER_IP,
      count: () => {
        throw new Error('no count')
      },
    })
    const admitted = await set.admit()
    if (admitted.kind !== 'admitted') throw new Error('not admitted')
    set.requests.settle(admitted, 200, {}, 0)
    expect(await left(set)).toBe(0)
    expect(set.logged).toEqual(['sluice: count: Error: no count'])
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error('no refund')
      },
      ['sluice: units not given back: Error: no refund'],
    ],
    ['returns nothing', () => undefined, []],
    [
      'rejects',
      () => Promise.reject(new Error('no refund')),
      ['sluice: units not given back: Error: no refund'],
    ],
  ])(
    'stay with a limiter whose cancel %s, and settling does not fail',
    async (_, cancel, lines) => {
      const limiter = createLimiter({ rules: PER_IP })
      const { admit, requests, logged } = setUp({
        limiter: {
          check: (call, options) => limiter.check(call, options),
          reserve: async (call, options) =>
            Object.assign(await limiter.reserve(call, options), {
              cancel: cancel as () => Promise<never>,
            }),
        },
        count: 'failed',
      })
      const admitted = await admit()
      if (admitted.kind !== 'admitted') throw new Error('not admitted')
      requests.settle(admitted, 200, {}, 0)
      await new Promise((resolve) => setImmediate(resolve))
      expect(logged).toEqual(lines)
    },
  )

  test.each([
    ['reserved', { reserve: true }],
    ['counted by their answers', { count: 'failed' }],
  ] as const)('that are %s take no places if the end of the call is not seen', async (_, more) => {
    const rules = [{ id: 'messages', by: [], limits: [{ algorithm: 'concurrency', max: 1 }] }]
    const { requests, admit } = setUp({ rules, ...more })
    for (let message = 0; message < 2; message++) {
      const unseen = { ...limitedOf({}), client: undefined }
      expect(await requests.admit(unseen)).toMatchObject({ kind: 'admitted' })
      const call = { attributes: { method: 'GET' } }
      expect(await requests.admitCall(call, {})).toMatchObject({ kind: 'admitted' })
    }
    expect(await admit()).toMatchObject({ kind: 'admitted' })
    expect(await admit()).toMatchObject({ kind: 'refused' })
  })

  test('of a client that left while its call was decided are given back', async () => {
    const limiter = createLimiter({
      rules: [{ id: 'wait', by: [], limits: [{ max: 1, window: '1h', wait: '2h' }] }],
    })
    const client = { ...NOTHING, destroyed: false }
    const { requests } = setUp({
      limiter: {
        check: async (call, options) => {
          client.destroyed = true
          return limiter.check(call, options)
        },
        refund: (receipt) => limiter.refund(receipt),
      },
    })
    await limiter.check({ attributes: {} })
    expect(await requests.admit({ ...limitedOf({}), client })).toEqual({ kind: 'abandoned' })
    const { delayMs } = await limiter.check({ attributes: {} })
    expect(delayMs).toBeLessThanOrEqual(3_600_000)
  })
})

describe('a limiter that fails', () => {
  const failing = { check: () => Promise.reject(new Error('broken')) }

  test('is logged once a minute, with the number of lines left out', async () => {
    const { admit, logged, advance } = setUp({ limiter: failing })
    for (let i = 0; i < 3; i++) await admit()
    advance(59_999)
    await admit()
    advance(1)
    await admit()
    expect(logged).toEqual([
      'sluice: request not decided: Error: broken',
      'sluice: request not decided: Error: broken (3 more since the last line)',
    ])
  })

  test('refuses with 500, or lets calls pass with the posture open', async () => {
    expect(await setUp({ limiter: failing }).admit()).toMatchObject({
      kind: 'refused',
      response: { status: 500 },
    })
    expect(await setUp({ limiter: failing, posture: 'open' }).admit()).toMatchObject({
      kind: 'admitted',
    })
  })

  test.each([
    ['CALL_PATH_INVALID', 400, 400],
    ['RULES_ABSENT', 503, 503],
    ['CALL_PATH_INVALID', 404, 500],
    ['OTHER', 400, 500],
  ])(
    'with an error of code %s and status %d is answered with %d',
    async (code, status, answered) => {
      const error = Object.assign(new Error('of another class'), { code, status })
      const admission = await setUp({ limiter: { check: () => Promise.reject(error) } }).admit()
      expect(admission).toMatchObject({ kind: 'refused', response: { status: answered } })
    },
  )

  test.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('no log')
      },
    ],
    ['rejects', () => Promise.reject(new Error('no log'))],
  ])('is answered even if the logger %s', async (_, log) => {
    const { create } = setUp({ rules: PER_IP })
    const requests = create({ limiter: failing, logger: { warn: log, error: log } })
    expect(await requests.admit(limitedOf({}))).toMatchObject({ response: { status: 500 } })
    await new Promise((resolve) => setImmediate(resolve))
  })

  test.each([
    ['closed', { kind: 'refused', response: { status: 500 } }],
    ['open', { kind: 'admitted', decision: undefined }],
  ] as const)(
    'with decisions of no methods answers by its posture, %s',
    async (posture, answer) => {
      const limiter = createLimiter({ rules: PER_IP })
      const check = async (call: Call) => JSON.parse(JSON.stringify(await limiter.check(call)))
      const { admit, logged } = setUp({ limiter: { check }, posture })
      expect(await admit()).toMatchObject(answer)
      expect(logged).toEqual([
        'sluice: request not decided: TypeError: limiter: found a decision without its methods, such ' +
          'as one that was read from JSON; accepted: a Decision with policyField(), leftField() and ' +
          'policies()',
      ])
    },
  )

  test('refuses with 503 once it is closed', async () => {
    const { requests, admit } = setUp({ rules: PER_IP })
    await requests.close()
    expect(await admit()).toMatchObject({ kind: 'refused', response: { status: 503 } })
  })
})

test('a call that is being decided reserves a place among the held calls until it is', async () => {
  const limiter = createLimiter({ rules: PER_IP })
  const canWait: unknown[] = []
  const { admit } = setUp({
    limiter: {
      check: async (call, options) => {
        canWait.push(options?.canWait)
        if (canWait.length === 1) throw new Error('broken')
        return limiter.check(call)
      },
    },
    hold: { max: 2 },
  })
  await Promise.all([admit(), admit(), admit()])
  await admit()
  expect(canWait).toEqual([true, true, false, true])
})

describe('a warning', () => {
  test('is logged once, with its page', async () => {
    const { admit, logged } = setUp({ rules: PER_IP })
    for (let i = 0; i < 2; i++) await admit({ headers: { 'x-forwarded-for': '203.0.113.1' } })
    expect(logged).toHaveLength(1)
    expect(logged[0]).toContain('[forwarded-ignored, docs/guides/middleware-warnings.md#forwarded')
  })

  test.each([[false as const], [['forwarded-ignored'] as const]])(
    'is not logged with warnings: %j',
    async (warnings) => {
      const { admit, logged } = setUp({ rules: PER_IP, warnings })
      await admit({ headers: { 'x-forwarded-for': '203.0.113.1' } })
      expect(logged).toEqual([])
    },
  )

  test('no-address is for rules by ip where no address is known', () => {
    const byUser = [{ id: 'per-user', by: ['user'], limits: ['2/hour'] }]
    expect(setUp({ rules: PER_IP }, { isSocketKnown: false }).codes()).toEqual(['no-address'])
    expect(setUp({ rules: byUser }, { isSocketKnown: false }).codes()).toEqual([])
    const set = setUp({ rules: PER_IP, address: 'cloudflare' }, { isSocketKnown: false })
    expect(set.codes()).toEqual([])
  })

  test('no-caller names the rule and the attribute that a call lacks', async () => {
    const byUser = [{ id: 'per-user', by: ['user'], limits: ['2/hour'] }]
    const { admit, logged, codes } = setUp({ rules: byUser, warnings: [] })
    await admit()
    await new Promise((resolve) => setImmediate(resolve))
    expect(codes()).toEqual(['no-caller'])
    expect(logged.at(-1)).toContain('(rule per-user: it counts by user, which is absent)')
  })

  test('no-caller is not for calls that no rule is about', async () => {
    const byPath = [{ id: 'login', match: { path: '/login' }, by: ['ip'], limits: ['2/hour'] }]
    const { admit, codes } = setUp({ rules: byPath })
    await admit({ target: '/other' })
    await new Promise((resolve) => setImmediate(resolve))
    expect(codes()).toEqual([])
  })

  test('counted-twice is for one request in the same counters', async () => {
    const { admit, codes } = setUp({ rules: PER_IP })
    const request = {}
    await admit(request)
    await admit({})
    expect(codes()).toEqual([])
    await admit(request)
    expect(codes()).toEqual(['counted-twice'])
  })

  test('counted-twice is not for two middlewares with counters of their own', async () => {
    const { admit, codes, create } = setUp({ rules: PER_IP })
    const request = {}
    await admit(request)
    await create({ rules: PER_IP }).admit(limitedOf(request))
    expect(codes()).toEqual([])
  })

  test('counted-twice is searched in a part of the requests after the first thousand', async () => {
    const { admit, codes } = setUp({ rules: [{ id: 'all', by: [], limits: ['9999/hour'] }] })
    for (let call = 0; call < 1000; call++) await admit({})
    const admitTwice = async () => {
      const request = {}
      await admit(request)
      await admit(request)
    }
    await admitTwice()
    expect(codes()).toEqual([])
    for (let request = 0; request < 2048; request++) await admitTwice()
    expect(codes()).toEqual(['counted-twice'])
  })

  test('shared-store is for one store with two definitions of a rule', () => {
    const store = memoryStore()
    const { codes, create } = setUp({ rules: PER_IP, store })
    create({ rules: PER_IP, store })
    expect(codes()).toEqual([])
    create({ rules: [{ id: 'per-ip', by: ['ip'], limits: ['9/hour'] }], store })
    expect(codes()).toEqual(['shared-store'])
  })
})

describe('an option', () => {
  test.each<[string, object]>([
    ['rules: found none; accepted: rules, or a limiter', {}],
    ['limiter: found one beside rules; accepted: either of them', { rules: [], limiter: {} }],
    ['limiter: found one without check; accepted: one with check(call)', { limiter: {} }],
    ['rules: found null; accepted: a value; undefined for the default', { rules: null }],
    [
      'logger: found one without error; accepted: one with warn and error',
      { rules: [], logger: { warn: () => {} } },
    ],
    ['cost: found 3; accepted: a function', { rules: [], cost: 3 }],
    [
      "count: found some; accepted: 'all', 'failed', 'succeeded' or a function",
      { rules: [], count: 'some' },
    ],
    [
      "count: found 'failed' with a limiter that has no reserve; accepted: 'all'",
      { limiter: { check: () => {} }, count: 'failed' },
    ],
    [
      'hold.max: found -1; accepted: a whole number from 0 to 1000000',
      { rules: [], hold: { max: -1 } },
    ],
    [
      "headers.standard: found draft-5; accepted: true, false, 'draft-6' to 'draft-8'",
      { rules: [], headers: { standard: 'draft-5' } },
    ],
    ["posture: found local; accepted: 'open' or 'closed'", { rules: [], posture: 'local' }],
    [
      `warnings: found all; accepted: ${WARNING_CODES.join(', ')}`,
      { rules: [], warnings: ['all'] },
    ],
    [
      'store: found one beside limiter; accepted: a store beside rules',
      {
        limiter: { check: () => {} },
        store: memoryStore(),
      },
    ],
    [
      'load: found one beside limiter; accepted: a load beside rules',
      { limiter: { check: () => {} }, load: () => 0 },
    ],
    ['shedStatus: found 500; accepted: 429 or 503', { rules: [], shedStatus: 500 }],
  ])('is refused with "%s"', (message, options) => {
    expect(() => setUp(options as TestOptions)).toThrow(message)
  })
})
