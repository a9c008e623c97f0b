import dns, { type LookupAddress, type LookupOptions } from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import { isIP } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startReceiver } from '../observability/alerts/webhook-receiver.test-helper.js'
import { Webhook } from '../observability/alerts/webhook.js'
import { parseConfig } from '../config/parse-config.js'
import { createUpstreams } from '../entrypoints/gateway/upstreams.js'
import { guardedLookup } from './guarded-lookup.js'
import { Jwks } from '../identity/jwt/jwks.js'
import { createSigner, serveJwks, testClock } from '../identity/jwt/token-verifier.test-helper.js'
import { createMemoryLog } from '../observability/log/memory-log.test-helper.js'

const answer = { addresses: [] as string[], error: null as Error | null }

type LookupArguments = readonly [
  options: LookupOptions,
  callback: (error: Error | null, address: string | LookupAddress[], family?: number) => void,
]

function lookup(...[{ all }, callback]: LookupArguments): void {
  if (answer.error !== null) return callback(answer.error, '')
  if (all === true) return callback(null, answer.addresses.map(entryOf))
  callback(null, answer.addresses[0] ?? '', familyOf(answer.addresses[0] ?? ''))
}

/**
 * Replaces the lookup of Node itself rather than the module, because modules that import it may
 * already be loaded: test files share a process.
 */
function replaceLookup(next: unknown): void {
  Object.assign(dns, { lookup: next })
  syncBuiltinESMExports()
}

const original = dns.lookup
beforeAll(() =>
  replaceLookup((hostname: string, ...rest: LookupArguments) =>
    // Servers that listen on an address look it up too.
    isIP(hostname) === 0 ? lookup(...rest) : original(hostname, ...rest),
  ),
)
afterAll(() => replaceLookup(original))

const familyOf = (address: string) => (address.includes(':') ? 6 : 4)
const entryOf = (address: string) => ({ address, family: familyOf(address) })

function lookUp(addresses: readonly string[], options: LookupOptions) {
  answer.addresses = [...addresses]
  return new Promise<{ error: string | undefined; address: unknown }>((resolve) => {
    guardedLookup('issuer.example', options, (error, address) =>
      resolve({ error: error?.message, address }),
    )
  })
}

const LINK_LOCAL = [
  '169.254.169.254',
  '169.254.0.1',
  'fe80::1',
  'fe80::1%eth0',
  'febf::1',
  '::ffff:169.254.169.254',
  '::ffff:a9fe:a9fe',
  'fd00:ec2::254',
]

test.each(LINK_LOCAL)(
  'a name that resolves to %s is refused, and the error says so',
  async (at) => {
    const refused = {
      error: `issuer.example resolves to ${at}, a link-local or metadata address`,
      address: '',
    }
    expect(await lookUp([at], {})).toEqual(refused)
    expect(await lookUp([at], { all: true })).toEqual(refused)
    expect(await lookUp(['192.0.2.1', '2001:db8::1', at], { all: true })).toEqual(refused)
  },
)

test('a name that resolves to other addresses gets all of them, in the requested form', async () => {
  const addresses = ['127.0.0.1', '10.0.0.1', '2001:db8::1', '::1', 'fd00::1']
  for (const address of addresses) {
    expect(await lookUp([address], {})).toEqual({ error: undefined, address })
  }
  expect(await lookUp(addresses, { all: true })).toEqual({
    error: undefined,
    address: addresses.map(entryOf),
  })
})

test('a name that cannot be resolved fails with the error of the lookup', async () => {
  answer.error = new Error('getaddrinfo ENOTFOUND issuer.example')
  expect(await lookUp([], { all: true })).toMatchObject({ error: answer.error.message })
})

const METADATA = '169.254.169.254'
const REFUSED = `localhost resolves to ${METADATA}, a link-local or metadata address`

/** The host name of a real server on this machine, resolved by the lookup above. */
const byName = (url: string) => url.replace('127.0.0.1', 'localhost')

test('a webhook whose host name now resolves to a link-local address is not connected to', async () => {
  answer.error = null
  answer.addresses = [METADATA]
  await using receiver = await startReceiver()
  const { log, lines } = createMemoryLog()
  const webhook = new Webhook({
    url: byName(receiver.url),
    secret: undefined,
    host: 'host-1',
    callers: 'hash',
    log,
    nowMs: () => 0,
    wait: () => setImmediate(),
  })
  const alert = {
    id: 'a',
    alert: 'degraded',
    severity: 'ticket',
    subject: 'a',
    summary: 'a',
  } as const
  const more = { details: {}, since: '', resolvedAt: null, node: 'n1', runbook: '' }
  webhook.notify({ ...alert, ...more })
  while (lines.length === 0 && receiver.received.length === 0) await setImmediate()
  await webhook.close()
  expect(receiver.received).toEqual([])
  expect(lines[0]).toMatchObject({ msg: 'webhook: delivery failed, will retry', problem: REFUSED })
})

test('an issuer whose host name resolves to a link-local address is not requested for keys', async () => {
  answer.error = null
  answer.addresses = ['127.0.0.1', METADATA]
  const signer = await createSigner('k1')
  await using server = await serveJwks(signer.jwk)
  const warnings: string[] = []
  const jwks = new Jwks({
    url: byName(server.url),
    algorithms: ['ES256'],
    clock: testClock(),
    warn: (message) => warnings.push(message),
  })
  expect(await jwks.find(() => undefined)).toBe('stale')
  await jwks.close()
  expect(server.fetches()).toBe(0)
  expect(warnings[0]).toContain(REFUSED)
})

test('an upstream whose host name resolves to a link-local address is not connected to', async () => {
  answer.error = null
  answer.addresses = [METADATA]
  const { config } = parseConfig(
    JSON.stringify({ gateway: { upstreams: [{ url: 'http://localhost:1' }] } }),
    { file: 'sluice.yaml', env: {}, readFile: () => '' },
  )
  const { upstreams: configured = [], timeouts } = config?.gateway ?? {}
  if (timeouts === undefined) throw new Error('no configuration')
  const upstreams = createUpstreams(configured, timeouts)
  const response = upstreams.find('/')?.pool.request({ method: 'GET', path: '/' })
  await expect(response).rejects.toThrow(REFUSED)
  await upstreams.close()
})
