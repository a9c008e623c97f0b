/** Bad input, part three: addresses (B28 to B37). */
import { describe, expect, test } from 'vitest'
import { parseConfig } from '../../src/config/parse-config.js'
import { readMetrics, valueOf } from '../../src/observability/metrics/read-metrics.test-helper.js'
import type { TestServer } from '../../src/serve.test-helper.js'
import {
  allowed,
  requestOnce,
  check,
  expectAlive,
  get,
  serverOfFile,
} from './bad-input.test-helper.js'
import { exchange } from './raw.test-helper.js'

const RULES = [
  { id: 'address', match: { path: '/one' }, by: ['ip'], limits: [{ max: 1, window: '366d' }] },
]
/** The test is an untrusted peer of the first server, and a trusted proxy of the second. */
const plain = serverOfFile({ rules: RULES })
const behind = serverOfFile({
  rules: RULES,
  env: { SLUICE_TRUSTED_PROXIES: '127.0.0.0/8,10.0.0.0/8' },
  config: { identity: { proxyHeaders: { user: 'x-user' } } },
})

const at = (ip: string) => ({ ip, path: '/one' })

/** Spellings of one caller. */
const SAME: readonly [claim: string, addresses: readonly string[]][] = [
  ['B28 IPv4 written as IPv6', ['1.2.3.4', '::ffff:1.2.3.4', '::ffff:102:304', '::FFFF:1.2.3.4']],
  ['B28 with every zero', ['1.2.3.5', '0:0:0:0:0:ffff:0102:0305', '::ffff:0102:0305']],
  ['B29 IPv6 that ends like IPv4', ['2001:db8:29::1.2.3.6', '2001:db8:29::9', '2001:db8:29::']],
  ['B30 zeros and capitals', ['2001:DB8:30:0::1', '2001:db8:30::1', '2001:0db8:0030::0001']],
  ['B30 a zone', ['fe80::1%eth0', 'fe80::1', 'fe80::1%1', 'fe80::2%wlan0']],
  ['B31 addresses of one /64', ['2001:db8:31::1', '2001:db8:31::ffff:ffff:ffff:ffff']],
]

describe('one address is one caller:', () => {
  test.each(SAME)('%s', async (_, addresses) => {
    const answers = await allowed(plain.server, addresses.map(at))
    expect(answers).toEqual(addresses.map((__, index) => index === 0))
  })

  test('B29 an IPv6 address that ends like an IPv4 address is not that address', async () => {
    expect(await allowed(plain.server, [at('2001:db8:2929::1.2.3.7'), at('1.2.3.7')])).toEqual([
      true,
      true,
    ])
  })

  test('B31 10^5 addresses of one /64 share one counter', async () => {
    const { server } = plain
    const counters = async () => {
      const { body } = await requestOnce(server.adminPort, get('/metrics'))
      return valueOf(readMetrics(body), 'sluice_counters') ?? 0
    }
    const before = await counters()
    let passed = 0
    for (let block = 0; block < 100; block++) {
      const calls = Array.from({ length: 1000 }, (_, index) => {
        const low = (block * 1000 + index).toString(16)
        return { attributes: at(`2001:db8:3131:0:${low.slice(-4)}:${low.slice(0, 4)}::1`) }
      })
      const { body } = await check(server, JSON.stringify(calls))
      passed += (JSON.parse(body) as { allowed: boolean }[]).filter((one) => one.allowed).length
    }
    expect([passed, (await counters()) - before]).toEqual([1, 1])
  })
})

/** The address that the upstream receives, for the header that the gateway receives. */
async function forwardedFor(server: TestServer, headers: string): Promise<string> {
  const { calls } = server
  expect((await requestOnce(server.gatewayPort, get('/', headers))).status).toBe(200)
  return String(calls.at(-1)?.headers['x-forwarded-for'])
}

async function ignoredBy({ adminPort }: TestServer): Promise<number> {
  const { body } = await requestOnce(adminPort, get('/metrics'))
  return valueOf(readMetrics(body), 'sluice_forwarded_ignored_total') ?? 0
}

const PEER = '127.0.0.1'

/** The header of the proxy, and the client that is accepted; without one, the proxy itself. */
const ENTRIES: readonly [entry: string, client?: string][] = [
  ['1.2.3.4', '1.2.3.4'],
  ['1.2.3.4:5678', '1.2.3.4'],
  ['[::1]:80', '::1'],
  ['[2001:db8::1]', '2001:db8::1'],
  // Spaces and tabs around an entry belong to the list.
  ['1.2.3.4\t', '1.2.3.4'],
  ['  1.2.3.4', '1.2.3.4'],
  ['::ffff:1.2.3.4', '1.2.3.4'],
  ['unknown'],
  ['_hidden'],
  ['01.02.03.04'],
  ['0x7f.1'],
  ['1.2.3'],
  ['1.2.3.4.5'],
  ['1.2.3.256'],
  ['1.2.3.4:99999'],
  ['1.2.3.4:'],
  ['1.2 .3.4'],
  ['16909060'],
  ['[1.2.3.4]'],
  ['[::1'],
  ['::1]'],
  [':::1'],
  ['1::2::3'],
  ['localhost'],
  ['"1.2.3.4"'],
  ['1.2.3.4;5.6.7.8'],
  ['１.2.3.4'],
]

test.each(ENTRIES)('B32 %j is parsed as an address, or the peer counts', async (entry, client) => {
  const { server } = behind
  const before = await ignoredBy(server)
  const header = Buffer.from(`X-Forwarded-For: ${entry}\r\n`).toString('latin1')
  const chain = client === undefined ? PEER : `${client}, ${PEER}`
  expect(await forwardedFor(server, header)).toBe(chain)
  expect((await ignoredBy(server)) - before).toBe(client === undefined ? 1 : 0)
})

const list = (count: number, entry: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => entry(index)).join(', ')

const LISTS: readonly [claim: string, headers: string, chain: string][] = [
  ['one entry is the client', 'X-Forwarded-For: 1.2.3.4\r\n', `1.2.3.4, ${PEER}`],
  [
    'of 100 entries the last that is no proxy is the client',
    `X-Forwarded-For: ${list(100, (index) => `203.0.113.${index}`)}\r\n`,
    `203.0.113.99, ${PEER}`,
  ],
  [
    'a client cannot name itself before what the proxies saw',
    'X-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.0.0.1\r\n',
    `1.2.3.4, 10.0.0.1, ${PEER}`,
  ],
  [
    'an empty entry is believed no further',
    'X-Forwarded-For: 6.6.6.6, , 10.0.0.1\r\n',
    `10.0.0.1, ${PEER}`,
  ],
  ['an empty last entry ends it at once', 'X-Forwarded-For: 6.6.6.6,\r\n', PEER],
  [
    'two lines are one list, in their order',
    'X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 1.2.3.4\r\n',
    `1.2.3.4, ${PEER}`,
  ],
  ['an empty second line hides nothing', 'X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For:\r\n', PEER],
]

test.each(LISTS)('B33 %s', async (_, headers, chain) => {
  expect(await forwardedFor(behind.server, headers)).toBe(chain)
})

test('B33 only the last 64 entries of a list of proxies are read', async () => {
  const header = `X-Forwarded-For: 6.6.6.6, ${list(100, (index) => `10.0.0.${index}`)}\r\n`
  const chain = (await forwardedFor(behind.server, header)).split(', ')
  expect([chain[0], chain.length]).toEqual(['10.0.0.36', 65])
})

test('B33 a list of 10,000 entries is refused with 431', async () => {
  const { server } = behind
  const bytes = get('/', `X-Forwarded-For: ${list(10_000, () => '1.2.3.4')}\r\n`)
  const { answers, isClosed } = await exchange(server.gatewayPort, bytes)
  expect([answers.map(({ status }) => status), isClosed]).toEqual([[431], true])
  await expectAlive(server)
})

const NAMES = [
  'X-Forwarded-For',
  'X-Real-IP',
  'CF-Connecting-IP',
  'True-Client-IP',
  'Client-IP',
].concat(['X-Client-IP', 'X_Forwarded_For', 'X.Forwarded.For'])

test('B34, B35 an untrusted peer names no address, in any header', async () => {
  const { server } = plain
  const statuses = []
  for (const name of NAMES) {
    const headers = `${name}: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n`
    statuses.push((await requestOnce(server.gatewayPort, get('/one', headers))).status)
    expect(await forwardedFor(server, headers)).toBe(PEER)
    const { headers: sent = {} } = server.calls.at(-1) ?? {}
    for (const dropped of ['forwarded', 'x-real-ip', 'x_forwarded_for', 'x.forwarded.for']) {
      expect(sent).not.toHaveProperty(dropped)
    }
  }
  expect(statuses).toEqual([200, 429, 429, 429, 429, 429, 429, 429])
})

test('B35 a proxy is trusted in one header only', async () => {
  const headers = 'Forwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\nCF-Connecting-IP: 9.9.9.9\r\n'
  expect(await forwardedFor(behind.server, headers)).toBe(PEER)
})

test('B36 a trust list of all addresses, or with IPv4 written as IPv6, is refused', () => {
  const messagesOf = (proxies: string) =>
    parseConfig(`trustedProxies: ${proxies}`, { file: 'sluice.yaml', env: {}, readFile: () => '' })
      .errors.map(({ message }) => message)
      .join('\n')
  expect(messagesOf('[0.0.0.0/0]')).toContain('which trusts everybody')
  expect(messagesOf('["::/0"]')).toContain('which trusts everybody')
  expect(messagesOf('["*"]')).toContain('which trusts everybody')
  expect(messagesOf('["::ffff:10.0.0.0/104"]')).toContain('which is IPv4 written as IPv6')
  expect(messagesOf('["::ffff:10.0.0.0/8"]')).toContain('bad network')
  expect(messagesOf('true')).toContain('trustedProxies')
  expect(messagesOf('[true]')).toContain('trustedProxies[0]')
})

test('B37 host, protocol, port and user are taken from a trusted proxy only', async () => {
  const headers =
    'X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\nX-User: a\r\n'
  await forwardedFor(plain.server, headers)
  expect(plain.server.calls.at(-1)?.headers).toMatchObject({
    'x-forwarded-host': 'a.example',
    'x-forwarded-proto': 'http',
  })
  expect(plain.server.calls.at(-1)?.headers).not.toHaveProperty('x-forwarded-port')
  await forwardedFor(behind.server, headers)
  expect(behind.server.calls.at(-1)?.headers).toMatchObject({
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'https',
    'x-forwarded-port': '1',
    'x-user': 'a',
  })
})
