/** Checks that one peer is one caller, whatever headers it sends. */
import { afterEach, expect, test } from 'vitest'
import {
  type ParsedMetric,
  readMetrics,
  valueOf,
} from '../../src/observability/metrics/read-metrics.test-helper.js'
import {
  startTestServer,
  type TestServer,
  type TestServerOptions,
} from '../../src/serve.test-helper.js'
import { pipeline } from './pipeline.test-helper.js'

const CALLS = 10_000
const LIMIT = 5000
/** A window of a year, so that no unit returns and no window ends during the test. */
const LIMITS = [{ max: LIMIT, window: '366d' }]
const PIPELINE = { connections: 8, depth: 25 }

let server: TestServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

async function start(options: TestServerOptions): Promise<TestServer> {
  server = await startTestServer(options)
  return server
}

async function metricsOf({ admin }: TestServer): Promise<ReadonlyMap<string, ParsedMetric>> {
  return readMetrics(await (await fetch(`${admin}/metrics`)).text())
}

function countOf(statuses: readonly number[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** Headers from which some server, proxy or framework reads an address or a user. */
const FORWARDING = [
  'X-Forwarded-For',
  'x-forwarded-for',
  'X_Forwarded_For',
  'X.Forwarded.For',
  'X-Forwarded_For',
  'X-Forwarded',
  'Forwarded-For',
  'Forwarded',
  'X-Real-IP',
  'X_Real_IP',
  'X-Client-IP',
  'X-Cluster-Client-IP',
  'X-Original-Forwarded-For',
  'X-Originating-IP',
  'X-Remote-IP',
  'X-Remote-Addr',
  'X-ProxyUser-Ip',
  'True-Client-IP',
  'CF-Connecting-IP',
  'CF-Connecting-IPv6',
  'Fastly-Client-IP',
  'Fly-Client-IP',
  'X-Azure-ClientIP',
  'X-Appengine-User-IP',
  'X-Envoy-External-Address',
  'Client-IP',
  'Via',
  'Remote-Addr',
  'X-Sluice-Over',
]
const IDENTITY = [
  'X-User',
  'X_User',
  'x.user',
  'X-Plan',
  'X_Plan',
  'X-Authenticated-User',
  'X-Email',
]
const CONNECTIONS = ['x-forwarded-for', 'x-forwarded-for, x-user', 'keep-alive', 'close-x, x-plan']

/** The same headers for the same number, whose digits select their count and order. */
function spoofedHeaders(number: number): string {
  const address = addressOf(number)
  const names = [...FORWARDING, ...IDENTITY]
  const lines: string[] = []
  for (let left = 1 + (number % 5), at = number; left > 0; left--, at += 7) {
    const name = names[at % names.length] ?? ''
    lines.push(`${name}: ${valueOfHeader(name, number, address)}`)
  }
  // Two lines of one list are one list, whichever of them is read.
  if (number % 11 === 0) lines.push(`X-Forwarded-For: ${address}`, 'X-Forwarded-For: 127.0.0.1')
  if (number % 13 === 0) {
    lines.push(`Connection: ${CONNECTIONS[number % CONNECTIONS.length] ?? ''}`)
  }
  return `${lines.join('\r\n')}\r\n`
}

function addressOf(number: number): string {
  const byte = (shift: number) => (number >> shift) & 255
  const hex = number.toString(16)
  switch (number % 4) {
    case 0:
      return `10.${byte(16)}.${byte(8)}.${byte(0)}`
    case 1:
      return `2001:db8:${hex}::1`
    case 2:
      return `::ffff:203.0.${byte(8)}.${byte(0)}`
    default:
      return `203.0.${byte(8)}.${byte(0)}:${1024 + number}, 10.0.0.${byte(0)}, 127.0.0.1`
  }
}

function valueOfHeader(name: string, number: number, address: string): string {
  if (IDENTITY.includes(name)) return `user-${number}`
  if (name === 'Forwarded') return `for="[2001:db8::${number.toString(16)}]";by=127.0.0.1`
  return name === 'Via' ? `1.1 proxy-${number}` : address
}

test('10^4 spoofed headers from one peer are one caller', async () => {
  const running = await start({
    config: { identity: { proxyHeaders: { user: 'x-user', plan: 'x-plan' } } },
    env: { SLUICE_TRUSTED_PROXIES: '10.0.0.0/8' },
    rules: [
      { id: 'address', by: ['ip'], limits: LIMITS },
      { id: 'users', by: ['user'], limits: LIMITS },
      { id: 'plans', by: ['plan'], limits: LIMITS },
    ],
  })
  const requests = Array.from({ length: CALLS }, (_, number) => {
    return `GET /v1/${number} HTTP/1.1\r\nHost: a.example\r\n${spoofedHeaders(number)}\r\n`
  })
  const answers = await pipeline(running.gatewayPort, requests, PIPELINE)
  expect(countOf(answers.map(({ status }) => status))).toEqual({ 200: LIMIT, 429: CALLS - LIMIT })

  const metrics = await metricsOf(running)
  const decided = (rule: string, outcome: string) =>
    valueOf(metrics, 'sluice_decisions_total', { rule, outcome, source: 'store' })
  expect(valueOf(metrics, 'sluice_counters')).toBe(1)
  expect([decided('address', 'allowed'), decided('address', 'refused')]).toEqual([LIMIT, LIMIT])
  expect(decided('users', 'allowed') ?? 0).toBe(0)
  expect(decided('plans', 'allowed') ?? 0).toBe(0)
  expect(valueOf(metrics, 'sluice_forwarded_ignored_total')).toBeGreaterThan(CALLS / 50)
  expectHonest(running)
})

/** Checks that the forwarded request names the peer, once, and no other client. */
function expectHonest({ calls }: TestServer): void {
  expect(calls).toHaveLength(LIMIT)
  const passed = new Set<string>()
  for (const { rawHeaders } of calls) {
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const name = (rawHeaders[at] ?? '').toLowerCase().replace(/[_.]/g, '-')
      if (/^(x-forwarded-for|forwarded|x-real-ip|x-user|x-plan|x-sluice-over)$/.test(name)) {
        passed.add(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`)
      }
    }
  }
  expect([...passed]).toEqual(['x-forwarded-for: 127.0.0.1'])
}

test('behind a trusted proxy, 10^4 invented addresses before the one it saw are one caller', async () => {
  const running = await start({
    env: { SLUICE_TRUSTED_PROXIES: '127.0.0.1' },
    rules: [{ id: 'address', by: ['ip'], limits: LIMITS }],
  })
  const requests = Array.from({ length: CALLS }, (_, number) => {
    const spoofed = addressOf(number)
    const lines = number % 2 === 0 ? `${spoofed}, 198.51.100.7` : `${spoofed}\r\n${SEEN}`
    return `GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: ${lines}\r\n\r\n`
  })
  const answers = await pipeline(running.gatewayPort, requests, PIPELINE)
  expect(countOf(answers.map(({ status }) => status))).toEqual({ 200: LIMIT, 429: CALLS - LIMIT })
  expect(valueOf(await metricsOf(running), 'sluice_counters')).toBe(1)
  const passed = new Set(running.calls.map(({ headers }) => headers['x-forwarded-for']))
  expect([...passed]).toEqual(['198.51.100.7, 127.0.0.1'])
})

const SEEN = 'X-Forwarded-For: 198.51.100.7'

test('10^4 invented API keys from one address spend one budget', async () => {
  const running = await start({
    config: { identity: { keys: [{ key: 'key-of-acme-0123456789', user: 'acme', plan: 'pro' }] } },
    rules: [
      { id: 'keys', by: ['api_key'], limits: LIMITS },
      { id: 'users', by: ['user'], limits: LIMITS },
      { id: 'address', match: { where: { user: null } }, by: ['ip'], limits: LIMITS },
    ],
  })
  const requests = Array.from({ length: CALLS }, (_, number) => {
    return `GET /v1/orders HTTP/1.1\r\nHost: a.example\r\n${inventedKey(number)}\r\n`
  })
  const answers = await pipeline(running.gatewayPort, requests, PIPELINE)
  expect(countOf(answers.map(({ status }) => status))).toEqual({ 200: LIMIT, 429: CALLS - LIMIT })

  const metrics = await metricsOf(running)
  const decided = (rule: string) =>
    valueOf(metrics, 'sluice_decisions_total', { rule, outcome: 'allowed', source: 'store' }) ?? 0
  expect(valueOf(metrics, 'sluice_counters')).toBe(1)
  expect([decided('address'), decided('keys'), decided('users')]).toEqual([LIMIT, 0, 0])
  expect(valueOf(metrics, 'sluice_identity_problems_total', { reason: 'unknown_key' })).toBe(CALLS)
  const callers = running.lines.filter(({ msg }) => msg === 'refused').map(({ caller }) => caller)
  expect(new Set(callers).size).toBe(1)
})

/** Beside each key, sometimes a header that could be mistaken for another identity. */
function inventedKey(number: number): string {
  const key = [
    `invented-${number}`,
    // A known key with another case, another end, or a space within.
    `KEY-OF-ACME-0123456789${number}`,
    `key-of-acme-012345678${number}`,
    `key-of-acme 0123456789 ${number}`,
    `\xff\xfe${number}`,
    'k'.repeat(1 + (number % 4000)),
  ][number % 6]
  const other = ['', `X_Api_Key: key-of-acme-0123456789\r\n`, `Authorization: Bearer ${number}\r\n`]
  return `X-Api-Key: ${key}\r\n${other[number % 3]}`
}
