import type { Call, Decision } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { descriptorOf, statusText } from './conformance.test-helper.js'
import { GrpcError } from './grpc-error.js'
import { openService, type OpenOptions } from './rate-limit-service.test-helper.js'

const CONFIG = [
  {
    domain: 'shop',
    descriptors: [
      { key: 'user', rate_limit: { unit: 'minute', requests_per_unit: 3 } },
      { key: 'plan', rate_limit: { unit: 'hour', requests_per_unit: 10, name: 'per-plan' } },
    ],
  },
]

async function open(options: OpenOptions = { config: CONFIG }) {
  const opened = await openService(options)
  const ask = async (domain: string, ...texts: string[]) =>
    opened.service.shouldRateLimit(
      { domain, descriptors: texts.map(descriptorOf), hitsAddend: 0 },
      { timeoutMs: undefined },
    )
  const statuses = async (domain: string, ...texts: string[]) =>
    (await ask(domain, ...texts)).statuses.map(statusText)
  return { ...opened, ask, statuses }
}

const headersOf = (flat: readonly string[]) =>
  Object.fromEntries(
    flat.flatMap((name, i) => (i % 2 === 0 ? [[name.toLowerCase(), flat[i + 1]]] : [])),
  )

describe('requests', () => {
  test('a request without a domain or descriptors is invalid, with the texts of the reference', async () => {
    const { ask } = await open()
    await expect(ask('', 'user=a')).rejects.toMatchObject({
      grpcCode: 3,
      message: 'rate limit domain must not be empty',
    })
    await expect(ask('shop')).rejects.toMatchObject({
      grpcCode: 3,
      message: 'rate limit descriptor list must not be empty',
    })
  })

  test('without a configuration and without rules the service is unavailable', async () => {
    const { service } = await openService({ rules: undefined })
    const request = { domain: 'x', descriptors: [descriptorOf('a=b')], hitsAddend: 0 }
    expect(service.shouldRateLimit(request, { timeoutMs: undefined })).toMatchObject({
      overallCode: 'ok',
    })
  })

  test('a request in memory is answered without a promise', async () => {
    const { service } = await open()
    const request = { domain: 'shop', descriptors: [descriptorOf('user=a')], hitsAddend: 0 }
    const answer = service.shouldRateLimit(request, { timeoutMs: 100 })
    expect(answer).not.toBeInstanceOf(Promise)
  })

  test('an unexpected error is logged, and the client is not told what it was', async () => {
    const { ask, errors } = await open({
      config: CONFIG,
      onDecision: () => {
        throw new Error('a secret')
      },
    })
    const failed = await ask('shop', 'user=a').catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(GrpcError)
    expect(failed).toMatchObject({ grpcCode: 13, message: 'internal error; see the server log' })
    expect(errors).toHaveLength(1)
  })
})

describe('configurations', () => {
  test('a limit that is raised keeps what was used', async () => {
    const { statuses, useConfig } = await open()
    await statuses('shop', 'user=a')
    await statuses('shop', 'user=a')
    const [domain] = CONFIG
    const raised = { key: 'user', rate_limit: { unit: 'minute', requests_per_unit: 5 } }
    await useConfig([{ ...domain, descriptors: [raised] }])
    expect(await statuses('shop', 'user=a', 'plan=x')).toEqual(['OK 5/minute 2 60s', 'OK'])
  })

  test('keys that occur twice, and many values, name counters of their own', async () => {
    const names = Array.from({ length: 12 }, (_, i) => `k${i}`)
    const nested = names.reduceRight<object>((inner, key) => ({ key, descriptors: [inner] }), {
      key: 'k',
      rate_limit: { unit: 'minute', requests_per_unit: 2 },
    })
    const twice = {
      key: 'a',
      descriptors: [{ key: 'a', rate_limit: { unit: 'minute', requests_per_unit: 2 } }],
    }
    const { statuses } = await open({ config: [{ domain: 'd', descriptors: [nested, twice] }] })
    const path = (last: string) => `${names.map((name) => `${name}=v`).join(',')},k=${last}`
    expect(await statuses('d', path('1'))).toEqual(['OK 2/minute 1 60s'])
    expect(await statuses('d', path('2'))).toEqual(['OK 2/minute 1 60s'])
    expect(await statuses('d', path('1'))).toEqual(['OK 2/minute 0 60s'])
    expect(await statuses('d', 'a=1,a=2')).toEqual(['OK 2/minute 1 60s'])
    expect(await statuses('d', 'a=2,a=1')).toEqual(['OK 2/minute 1 60s'])
  })

  test('a domain can count by any algorithm, and a limit that it cannot count by fixed windows', async () => {
    const large = { unit: 'hour', requests_per_unit: 20_000 }
    const descriptors = [
      { key: 'user', rate_limit: { unit: 'minute', requests_per_unit: 2 } },
      { key: 'large', rate_limit: large },
    ]
    const { statuses, clock, inexact } = await open({
      config: [{ domain: 'logs', descriptors }],
      domains: new Map([['logs', { algorithm: 'sliding-window-log' }]]),
    })
    await statuses('logs', 'user=a')
    clock.advance(59_000)
    await statuses('logs', 'user=a')
    clock.advance(2000)
    // The first has left the window, the second has not.
    expect(await statuses('logs', 'user=a')).toEqual(['OK 2/minute 0 60s'])
    expect(await statuses('logs', 'user=a')).toEqual(['OVER 2/minute 0 58s'])
    expect(await statuses('logs', 'large=a')).toEqual(['OK 20000/hour 19999 3539s'])
    expect(inexact).toEqual([expect.stringContaining('logs.large: max: ')])
  })
})

describe('rules of Sluice', () => {
  const RULES = [
    {
      id: 'per-user',
      by: ['user'],
      limits: [{ algorithm: 'fixed-window', max: 2, window: '90s' }],
    },
    {
      id: 'per-address',
      match: { where: { domain: ['edge'] } },
      by: ['ip'],
      limits: [{ algorithm: 'fixed-window', max: 5, window: '1h' }],
    },
    { id: 'tried', by: ['user'], limits: [{ max: 1, window: '1h' }], mode: 'shadow' },
  ]

  test('a descriptor is a call: its entries are attributes, and so are domain and address', async () => {
    const { statuses } = await open({ rules: RULES })
    expect(await statuses('edge', 'user=a', 'remote_address=203.0.113.7', 'other=x')).toEqual([
      'OK 2/unknown per-user 1 90s',
      'OK 5/hour per-address 4 3600s',
      'OK',
    ])
    expect(await statuses('elsewhere', 'remote_address=203.0.113.7')).toEqual(['OK'])
    expect(await statuses('edge', 'user=a,remote_address=203.0.113.7')).toEqual([
      'OK 2/unknown per-user 0 90s',
    ])
    expect(await statuses('edge', 'user=a', 'remote_address=203.0.113.7')).toEqual([
      'OVER 2/unknown per-user 0 90s',
      'OK 5/hour per-address 3 3600s',
    ])
  })

  test('an amount of a descriptor counts first, 0 asks, and negative hits give back', async () => {
    const { statuses } = await open({ rules: RULES })
    expect(await statuses('d', 'user=a hits=0')).toEqual(['OK 2/unknown per-user 2 90s'])
    expect(await statuses('d', 'user=a hits=7')).toEqual(['OVER 2/unknown per-user 0 90s'])
    expect(await statuses('d', 'user=a hits=0')).toEqual(['OVER 2/unknown per-user 0 90s'])
    expect(await statuses('d', 'user=a hits=1 negative')).toEqual(['OK'])
    expect(await statuses('d', 'user=a')).toEqual(['OK 2/unknown per-user 0 90s'])
  })

  test('descriptors of one caller count one after the other, also for rules in shadow', async () => {
    const seen: string[] = []
    const { statuses } = await open({
      rules: RULES,
      onDecision: (decision) =>
        decision.eachRule((rule, outcome) => void seen.push(`${rule} ${outcome}`)),
    })
    expect(await statuses('d', 'user=a', 'user=a')).toEqual([
      'OK 2/unknown per-user 1 90s',
      'OK 2/unknown per-user 0 90s',
    ])
    expect(seen).toEqual([
      'per-user allowed',
      'tried allowed',
      'per-user allowed',
      'tried shadow_refused',
    ])
  })

  test('a path that is not canonical is refused: it could be sent to dodge a limit', async () => {
    const rules = [{ id: 'paths', match: { path: '/a/*' }, limits: ['10/second'] }]
    const { statuses } = await open({ rules })
    expect(await statuses('d', 'path=/a/b', 'path=/b/../a/b')).toEqual(['OK', 'OVER'])
    expect(await statuses('d', 'path=/a/b?q')).toEqual(['OK 10/second paths 9 1s'])
  })

  test('a configured domain is decided by its configuration alone', async () => {
    const { statuses } = await open({ rules: RULES, config: CONFIG })
    expect(await statuses('shop', 'user=a')).toEqual(['OK 3/minute 2 60s'])
    expect(await statuses('other', 'user=a')).toEqual(['OK 2/unknown per-user 1 90s'])
  })

  test('requireMatch refuses descriptors that match no rule, and charges nothing', async () => {
    const domains = new Map([['edge', { requireMatch: true }]])
    const { statuses } = await open({ rules: RULES, domains })
    expect(await statuses('edge', 'user=a', 'other=x')).toEqual(['OK', 'OVER'])
    expect(await statuses('edge', 'user=a')).toEqual(['OK 2/unknown per-user 1 90s'])
  })
})

describe('what is reported', () => {
  test('each descriptor is a decision, with its entries as attributes and secrets masked', async () => {
    const seen: [Decision, Call][] = []
    const config = [
      {
        domain: 'shop',
        descriptors: [
          {
            key: 'api_key',
            descriptors: [{ key: 'path', rate_limit: { unit: 'minute', requests_per_unit: 3 } }],
          },
        ],
      },
    ]
    const { ask } = await open({
      config,
      onDecision: (decision, call) => void seen.push([decision, call]),
    })
    await ask('shop', 'api_key=a-very-secret-key-of-mine,path=/x', 'nowhere=y')
    const shown = seen.map(([{ allowed, rule, reason }, { attributes, cost }]) => ({
      allowed,
      rule,
      reason,
      attributes,
      cost,
    }))
    expect(shown).toEqual([
      {
        allowed: true,
        rule: 'shop.api_key.path',
        reason: 'within',
        attributes: { api_key: expect.stringMatching(/^[0-9a-f]{16}\.\.mine$/), path: '/x' },
        cost: 1,
      },
      {
        allowed: true,
        rule: null,
        reason: 'unmatched',
        attributes: { domain: 'shop', nowhere: 'y' },
        cost: 1,
      },
    ])
    const callers: unknown[] = []
    seen[0]?.[0].eachCaller((rule, by, _caller, outcome, left, cost, view) =>
      callers.push([rule, by, outcome, left, cost, view.path]),
    )
    expect(callers).toEqual([['shop.api_key.path', ['api_key', 'path'], 'allowed', 2 / 3, 1, '/x']])
  })

  test('unmatched descriptors are counted, and domains that nobody configured share one label', async () => {
    const domains = new Map([['listed', {}]])
    const { ask, registry } = await open({ config: CONFIG, domains })
    await ask('shop', 'nowhere=x', 'user=a', 'nowhere=y')
    await ask('listed', 'nowhere=x')
    await ask('random-1', 'nowhere=x')
    await ask('random-2', 'nowhere=x')
    expect(linesOf(registry.text(), 'sluice_envoy_unmatched_descriptors_total')).toEqual([
      '{domain=""} 2',
      '{domain="listed"} 1',
      '{domain="shop"} 2',
    ])
  })

  test('values of requests are in labels only where the configuration says so, and bounded', async () => {
    const rate_limit = { unit: 'minute', requests_per_unit: 3 }
    const config = [
      {
        domain: 'shop',
        descriptors: [
          { key: 'plain', rate_limit },
          { key: 'detailed', rate_limit, detailed_metric: true },
        ],
      },
    ]
    const { ask, registry } = await open({ config })
    for (let i = 0; i < 1500; i++) await ask('shop', `plain=v${i}`, `detailed=v${i}`)
    const lines = linesOf(registry.text(), 'ratelimit_service_rate_limit_total_hits')
    expect(lines).toHaveLength(1002)
    expect(lines).toContain('{domain="shop",key1="plain",key2=""} 1500')
    expect(lines).toContain('{domain="shop",key1="detailed",key2=""} 500')
    expect(lines).toContain('{domain="shop",key1="detailed_v7",key2=""} 1')
    expect(linesOf(registry.text(), 'sluice_envoy_folded_hits_total')).toEqual([' 500'])
  })
})

describe('metrics of the reference', () => {
  // limit, what was counted before, hits; over, near and within the limit
  const rows = [
    [15, 10, 1, 0, 0, 1],
    [15, 12, 1, 0, 1, 1],
    [15, 15, 1, 1, 0, 0],
    [20, 2, 3, 0, 0, 3],
    [8, 5, 2, 0, 1, 2],
    [20, 16, 3, 0, 3, 3],
    [20, 19, 3, 2, 1, 0],
    [20, 15, 7, 2, 4, 0],
    [10, 27, 3, 3, 0, 0],
  ] as const

  test.each(rows)(
    'a limit of %i with %i hits and %i more has %i over, %i near and %i within',
    async (max, before, hits, ...expected) => {
      const descriptors = [{ key: 'k', rate_limit: { unit: 'hour', requests_per_unit: max } }]
      const { ask, registry } = await open({
        config: [{ domain: 'd', descriptors }],
        domains: new Map([['d', { counting: 'reference' }]]),
      })
      const read = () =>
        ['over', 'near', 'within'].map((name) =>
          Number(
            linesOf(registry.text(), `ratelimit_service_rate_limit_${name}_limit`)[0]?.split(
              ' ',
            )[1],
          ),
        )
      await ask('d', `k=v hits=${before}`)
      const [over = 0, near = 0, within = 0] = read()
      await ask('d', `k=v hits=${hits}`)
      const [o = 0, n = 0, w = 0] = read()
      expect([o - over, n - near, w - within]).toEqual(expected)
    },
  )
})

describe('headers and bodies', () => {
  test('an answer has the rate limit headers of all descriptors', async () => {
    const { ask } = await open()
    const { responseHeaders, rawBody } = await ask('shop', 'user=a', 'plan=x')
    expect(headersOf(responseHeaders)).toEqual({
      'ratelimit-policy': '"shop.user";q=3;w=60, "per-plan";q=10;w=3600',
      ratelimit: '"shop.user";r=2;t=60, "per-plan";r=9;t=3600',
      'x-ratelimit-limit': '3',
      'x-ratelimit-remaining': '2',
      'x-ratelimit-reset': '1767225660',
    })
    expect(rawBody).toBe('')
  })

  test('a refusal has a problem as its body, and says when to come back', async () => {
    const { ask } = await open()
    for (let i = 0; i < 3; i++) await ask('shop', 'user=a')
    const { overallCode, responseHeaders, rawBody } = await ask('shop', 'user=a', 'plan=x')
    expect(overallCode).toBe('over-limit')
    expect(headersOf(responseHeaders)).toMatchObject({
      'retry-after': '60',
      'content-type': 'application/problem+json',
      'x-ratelimit-remaining': '0',
    })
    expect(JSON.parse(rawBody)).toMatchObject({
      status: 429,
      'violated-policies': ['shop.user'],
      retry_after_seconds: 60,
    })
  })

  test('of alternatives a refusal shows all, and an answer those that have room', async () => {
    const quota = (n: number) => ({ unit: 'minute', requests_per_unit: n })
    const descriptors = [
      { key: 'one', rate_limit: quota(1), quota_mode: true },
      { key: 'two', rate_limit: quota(2), quota_mode: true },
    ]
    const { ask } = await open({ config: [{ domain: 'q', descriptors }] })
    const policies: unknown[] = []
    for (let i = 0; i < 3; i++) {
      const { responseHeaders } = await ask('q', 'one=x', 'two=x')
      policies.push(headersOf(responseHeaders)['ratelimit'])
    }
    expect(policies).toEqual([
      '"q.one";r=0;t=60, "q.two";r=1;t=60',
      '"q.two";r=0;t=60',
      '"q.one";r=0;t=60, "q.two";r=0;t=60',
    ])
  })

  test('the headers of the reference name the limit with the least left, or that is over', async () => {
    const headers = { kind: 'reference', limit: 'L', remaining: 'R', reset: 'T' } as const
    const { ask, clock } = await open({ config: CONFIG, headers })
    clock.advance(2000)
    const first = await ask('shop', 'user=a', 'plan=x')
    expect(first.responseHeaders).toEqual(['L', '3', 'R', '2', 'T', '58'])
    for (let i = 0; i < 2; i++) await ask('shop', 'user=a')
    const over = await ask('shop', 'user=a', 'plan=x')
    expect(over).toMatchObject({ responseHeaders: ['L', '3', 'R', '0', 'T', '58'], rawBody: '' })
    expect((await ask('shop', 'nowhere=x')).responseHeaders).toEqual([])
  })

  test('without headers neither an answer nor a refusal has any, nor a body', async () => {
    const { ask } = await open({ config: CONFIG, headers: { kind: 'none' } })
    expect((await ask('shop', 'user=a hits=5')).overallCode).toBe('over-limit')
    await ask('shop', 'user=a hits=3')
    expect(await ask('shop', 'user=a')).toMatchObject({
      overallCode: 'over-limit',
      responseHeaders: [],
      rawBody: '',
    })
  })

  test('with headers of refusals an answer has none', async () => {
    const { ask } = await open({ config: CONFIG, headers: { kind: 'refusals' } })
    expect((await ask('shop', 'user=a')).responseHeaders).toEqual([])
    await ask('shop', 'user=a hits=5')
    const names = (await ask('shop', 'user=a')).responseHeaders.filter((_, i) => i % 2 === 0)
    expect(names).toEqual(['Retry-After', 'Cache-Control', 'content-type'])
  })

  test('a refusal because nothing matches says so', async () => {
    const domains = new Map([['shop', { requireMatch: true }]])
    const { ask } = await open({ config: CONFIG, domains })
    const { overallCode, rawBody } = await ask('shop', 'nowhere=x')
    expect(overallCode).toBe('over-limit')
    expect(JSON.parse(rawBody)).toMatchObject({ status: 429, error: 'unmatched' })
  })

  test('metadata has the request, and what is said of the limits that had room', async () => {
    const rate_limit = { unit: 'minute', requests_per_unit: 1 }
    const descriptors = [
      { key: 'a', rate_limit, metadata: { tier: 'one', nested: { x: 1 } } },
      { key: 'b', rate_limit, metadata: { tier: 'two', nested: { x: 2, y: 3 } } },
    ]
    const { ask } = await open({ config: [{ domain: 'm', descriptors }], sendsMetadata: true })
    expect((await ask('m', 'a=1', 'b=2,c=3', 'b=2')).dynamicMetadata).toEqual({
      domain: 'm',
      descriptors: [{ entries: ['a=1'] }, { entries: ['b=2', 'c=3'] }, { entries: ['b=2'] }],
      metadata: { tier: 'one', nested: { x: 1, y: 3 } },
    })
    expect((await ask('m', 'a=1', 'b=9')).dynamicMetadata).toMatchObject({
      metadata: { tier: 'two', nested: { x: 2, y: 3 } },
    })
  })
})

/** The lines of one metric, without its name. */
function linesOf(text: string, name: string): readonly string[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .map((line) => line.slice(name.length))
}
