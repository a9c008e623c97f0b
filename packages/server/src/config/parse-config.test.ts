import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseCidr, parsePattern } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import type { Config, EnvoyDomain } from './config.js'
import { ALERTS_DEFAULT } from './parse-alerts.js'
import { parseConfig } from './parse-config.js'

const TOKEN = 'token-0123456789'
const FILE = '/etc/sluice/sluice.yaml'

interface Given {
  readonly env?: Readonly<Record<string, string>>
  readonly files?: Readonly<Record<string, string>>
}

function parse(text: string | undefined, { env = {}, files = {} }: Given = {}) {
  const readFile = (path: string) => {
    const found = files[path]
    if (found === undefined) throw Object.assign(new Error(`no ${path}`), { code: 'ENOENT' })
    return found
  }
  return parseConfig(text, { file: text === undefined ? undefined : FILE, env, readFile })
}

function configOf(text: string | undefined, given: Given = {}): Config {
  const { config, errors } = parse(text, given)
  if (config === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return config
}

const messagesOf = (text: string | undefined, given: Given = {}) =>
  parse(text, given).errors.map(({ message }) => message)

const envoyDomain = (settings: Partial<EnvoyDomain>): EnvoyDomain => ({
  counting: 'sluice',
  requireMatch: false,
  algorithm: undefined,
  posture: undefined,
  ...settings,
})

const DEFAULTS: Config = {
  file: undefined,
  rules: undefined,
  allowNoRules: false,
  dataDir: resolve('.sluice'),
  workers: 1,
  trustedProxies: [],
  forwardedHeader: 'x-forwarded-for',
  keySecret: undefined,
  maxCounters: 1_000_000,
  redis: undefined,
  ring: undefined,
  regions: undefined,
  database: undefined,
  rulesHistory: { versions: 10_000, ageMs: undefined },
  gateway: {
    listen: { host: '127.0.0.1', port: 8080 },
    tls: undefined,
    upstreams: [],
    headers: true,
    cors: undefined,
    requireUser: [],
    maxConnections: 10_000,
    maxConnectionsPerAddress: 1000,
    maxCallsPerAddress: 200,
    maxHeld: 1000,
    timeouts: {
      headersMs: 9000,
      requestMs: 300_000,
      connectMs: 5000,
      queueMs: 30_000,
      responseMs: 30_000,
      stallMs: 60_000,
      websocketIdleMs: 300_000,
    },
  },
  api: {
    listen: { host: '127.0.0.1', port: 8081 },
    tls: undefined,
    token: undefined,
    refusedStatus: 429,
  },
  envoy: {
    listen: { host: '127.0.0.1', port: 8082 },
    tls: undefined,
    insecure: false,
    config: undefined,
    xds: undefined,
    deadlineMs: 15,
    server: 'grpc-js',
    reflection: false,
    shadow: false,
    quota: false,
    headers: 'all',
    metadata: false,
    mergeDomains: false,
    domains: new Map(),
    defaults: envoyDomain({}),
    nearLimitRatio: 0.8,
    maxAgeMs: 86_400_000,
  },
  admin: { listen: { host: '127.0.0.1', port: 9090 }, token: undefined },
  identity: {
    ipv6Prefix: 64,
    apiKey: { header: 'x-api-key', unknown: 'anonymous' },
    keys: [],
    jwt: undefined,
    proxyHeaders: { user: undefined, plan: undefined, priority: undefined },
    headers: [],
  },
  refusals: { postureStatus: 429, shedStatus: 429, jitter: true },
  log: { level: 'info', callers: 'hash' },
  alerts: ALERTS_DEFAULT,
  decisionLog: undefined,
  telemetry: true,
  shutdown: { delayMs: 1000, withinMs: 10_000 },
}

describe('a missing field has its default', () => {
  test('without a file', () => {
    expect(configOf(undefined)).toEqual(DEFAULTS)
  })

  test.each(['', '# nothing\n', '{}', '\ufeff{}'])('in a file that contains %j', (text) => {
    expect(configOf(text)).toEqual({ ...DEFAULTS, file: FILE })
  })
})

test('a history of rules that is too short, too long or misspelled is refused with what is accepted', () => {
  expect(messagesOf('rulesHistory: { versions: 99, age: 1h, count: 3 }')).toEqual([
    expect.stringContaining('rulesHistory.versions: '),
    expect.stringContaining('rulesHistory.age: '),
    expect.stringContaining('rulesHistory.count: unknown key "count"'),
  ])
})

test('every field is read, and relative file paths start at the configuration file', () => {
  const url = new URL('../../../../conformance/config/valid/every-field.yaml', import.meta.url)
  const files = {
    '/etc/sluice/api.token': `${TOKEN}\n`,
    '/etc/sluice/admin.token': `${TOKEN}A`,
    '/etc/sluice/webhook.secret': `${TOKEN}W\n`,
  }
  const sha256 = createHash('sha256').update('sk_live_0123456789abcdef').digest('hex')
  expect(configOf(readFileSync(url, 'utf8'), { files })).toEqual({
    file: FILE,
    rules: '/etc/sluice/rules.yaml',
    allowNoRules: true,
    rulesHistory: { versions: 500, ageMs: 30 * 86_400_000 },
    dataDir: '/var/lib/sluice',
    workers: 4,
    trustedProxies: ['10.0.0.0/8', '2001:db8::/32', '127.0.0.1'].map(parseCidr),
    forwardedHeader: 'forwarded',
    keySecret: undefined,
    maxCounters: 20_000_000,
    redis: {
      url: 'rediss+cluster://sluice:p%40ss@10.0.0.1:7000,[2001:db8::1]:7001,redis_2',
      deadlineMs: 5,
      prefix: 'prod:limits',
      layout: 'packed',
      client: 'iovalkey',
      denyCacheMs: 0,
      clockToleranceMs: 250,
      fleetSize: 12,
      allowEviction: true,
      tls: {
        ca: '/etc/sluice/ca.pem',
        cert: '/etc/sluice/cert.pem',
        key: '/etc/sluice/key.pem',
        servername: 'redis.example',
      },
    },
    gateway: {
      listen: { host: '0.0.0.0', port: 8443 },
      tls: { cert: '/etc/sluice/cert.pem', key: '/etc/sluice/key.pem' },
      upstreams: [
        {
          prefix: '/',
          origin: 'http://127.0.0.1:3000',
          host: 'preserve',
          connections: 256,
          websockets: 256,
          usage: undefined,
        },
        {
          prefix: '/v1',
          origin: 'https://orders.example:8443',
          host: 'upstream',
          connections: 64,
          websockets: 5000,
          usage: undefined,
        },
        {
          prefix: '/v1/chat',
          origin: 'https://api.openai.example',
          host: 'upstream',
          connections: 256,
          websockets: 256,
          usage: {
            dialect: 'openai',
            defaultOutput: 4096,
            prices: new Map([
              ['gpt-5', { input: 1.25, output: 10, cached: 0.125 }],
              ['gpt-5-mini*', { input: 0.25, output: 2, cached: 0.25 }],
            ]),
            onExhausted: 'stop',
          },
        },
        {
          prefix: '/v1/messages',
          origin: 'https://api.anthropic.example',
          host: 'preserve',
          connections: 256,
          websockets: 256,
          usage: {
            dialect: 'anthropic',
            defaultOutput: 1024,
            prices: new Map(),
            onExhausted: 'continue',
          },
        },
      ],
      headers: false,
      cors: {
        origins: new Set(['https://app.example', 'http://localhost:5173', 'capacitor://localhost']),
        credentials: true,
      },
      requireUser: ['/v1/orders/:id', '/v2/*'].map(parsePattern),
      maxConnections: 50_000,
      maxConnectionsPerAddress: 2000,
      maxCallsPerAddress: 500,
      maxHeld: 0,
      timeouts: {
        headersMs: 100,
        requestMs: 3_600_000,
        connectMs: 2000,
        queueMs: 20_000,
        responseMs: 10_000,
        stallMs: 300_000,
        websocketIdleMs: 7_200_000,
      },
    },
    api: {
      listen: { host: '::', port: 8081 },
      tls: { cert: '/etc/sluice/cert.pem', key: '/etc/key.pem' },
      token: TOKEN,
      refusedStatus: 403,
    },
    envoy: {
      listen: { host: '::', port: 8082 },
      tls: {
        cert: '/etc/sluice/cert.pem',
        key: '/etc/sluice/key.pem',
        clientCa: '/etc/sluice/proxies.pem',
      },
      insecure: false,
      config: '/etc/sluice/ratelimit',
      xds: undefined,
      deadlineMs: 50,
      server: 'grpc-js',
      reflection: true,
      shadow: true,
      quota: true,
      headers: 'standard',
      metadata: true,
      mergeDomains: true,
      domains: new Map([
        ['edge', envoyDomain({ counting: 'reference', requireMatch: true, posture: 'closed' })],
        ['mesh.internal', envoyDomain({ algorithm: 'sliding-window-counter' })],
        ['the domain of another team, spelled with spaces', envoyDomain({})],
      ]),
      defaults: envoyDomain({}),
      nearLimitRatio: 0.8,
      maxAgeMs: 86_400_000,
    },
    admin: { listen: { host: 'sluice.example', port: 9090 }, token: `${TOKEN}A` },
    identity: {
      ipv6Prefix: 56,
      apiKey: { header: 'x-key', unknown: 'refuse' },
      keys: [
        { sha256, user: 'acme', plan: 'pro', state: 'active' },
        {
          sha256: `abcdefabcdef${'0'.repeat(52)}`,
          user: '7',
          plan: undefined,
          state: 'disabled',
        },
      ],
      jwt: {
        header: 'authorization',
        keys: [
          { kid: 'k1', algorithm: 'RS256', file: '/etc/sluice/public.pem' },
          { kid: 'k2', algorithm: 'HS256', file: '/etc/sluice/secret.txt' },
        ],
        jwks: {
          url: 'http://127.0.0.1:9999/jwks.json?tenant=1',
          algorithms: ['ES256', 'EdDSA'],
        },
        issuer: 'https://issuer.example',
        audience: 'api',
        userClaim: 'email',
        planClaim: 'tier',
      },
      proxyHeaders: { user: 'x-auth-user', plan: 'x-auth-plan', priority: 'x-priority' },
      headers: [
        { attribute: 'tenant', header: 'x-tenant-id', open: false },
        { attribute: 'region', header: 'x-region', open: true },
      ],
    },
    refusals: { postureStatus: 503, shedStatus: 503, jitter: false },
    log: { level: 'warn', callers: 'clear' },
    alerts: {
      webhook: { url: 'http://alerts.example:9000/hook?team=7', secret: `${TOKEN}W` },
      runbook: 'https://wiki.example/sluice/runbook',
      callerExhaustedMs: 600_000,
      rulesStaleMs: 120_000,
      baselineMs: 1_800_000,
      off: ['clock-spread', 'caller-exhausted'],
    },
    decisionLog: {
      file: '/etc/sluice/decisions.log',
      sample: 0.25,
      maxBytes: 1_000_000,
      keep: 3,
    },
    telemetry: false,
    shutdown: { delayMs: 0, withinMs: 600_000 },
  })
})

describe('single fields', () => {
  test('requireUser: true means every path, false and [] mean none', () => {
    const requireUser = (value: string) =>
      configOf(`gateway: { requireUser: ${value} }`).gateway.requireUser
    expect(requireUser('true')).toEqual(['/', '/*'].map(parsePattern))
    expect(requireUser('false')).toEqual([])
    expect(requireUser('[]')).toEqual([])
  })

  test('a header may set an attribute of usage only if no upstream has usage', () => {
    const headers = 'identity: { headers: { model: x-model, tokens: x-tokens } }'
    const upstream = 'url: "http://127.0.0.1:3000"'
    expect(messagesOf(`${headers}\ngateway: { upstreams: [{ ${upstream} }] }`)).toEqual([])
    const others =
      'another name than ip, api_key, user, plan, method, path, route, priority, cost, ' +
      'model, stream, input_tokens, output_tokens, tokens, spend'
    expect(
      messagesOf(`${headers}\ngateway: { upstreams: [{ ${upstream}, usage: openai }] }`),
    ).toEqual([
      `${FILE}:1:24: identity.headers.model: "model" has a field of its own. Accepted: ${others}`,
      `${FILE}:1:40: identity.headers.tokens: "tokens" has a field of its own. Accepted: ${others}`,
    ])
  })

  test('jwt has defaults: the authorization header, sub, plan, RS256', () => {
    const text = 'identity: { jwt: { jwks: { url: "https://issuer.example/k" } } }'
    expect(configOf(text).identity.jwt).toEqual({
      header: 'authorization',
      keys: [],
      jwks: { url: 'https://issuer.example/k', algorithms: ['RS256'] },
      issuer: undefined,
      audience: undefined,
      userClaim: 'sub',
      planClaim: 'plan',
    })
  })

  test('a single jwt key may omit its kid, several may not', () => {
    const key = '{ algorithm: RS256, file: a.pem }'
    expect(configOf(`identity: { jwt: { keys: [${key}] } }`).identity.jwt?.keys[0]?.kid).toBe(
      undefined,
    )
    expect(messagesOf(`identity: { jwt: { keys: [${key}, { kid: b, ${key.slice(2)}] } }`)).toEqual([
      `${FILE}:1:27: identity.jwt.keys[0].kid: missing. Accepted: the kid of its tokens; only a single key may go without`,
    ])
  })

  test('an API key in clear text and its hash are the same key', () => {
    const key = 'sk_live_0123456789abcdef'
    const sha256 = createHash('sha256').update(key).digest('hex')
    const keysOf = (item: string) => configOf(`identity: { keys: [{ ${item} }] }`).identity.keys
    expect(keysOf(`key: ${key}`)).toEqual(keysOf(`sha256: "${sha256}"`))
  })

  test('an API key may use the authorization header if no jwt does', () => {
    const text = 'identity: { apiKey: { header: Authorization } }'
    expect(configOf(text).identity.apiKey.header).toBe('authorization')
  })

  test('a control plane has defaults, and files of TLS beside the configuration', () => {
    const { xds } = configOf(
      'envoy: { xds: { server: "Envoy-Gateway:18001", nodeId: n, tls: { ca: ca.crt } } }',
    ).envoy
    expect(xds).toEqual({
      server: { host: 'envoy-gateway', port: 18_001 },
      nodeId: 'n',
      nodeMetadata: new Map(),
      headers: new Map(),
      tls: { ca: '/etc/sluice/ca.crt', cert: undefined, key: undefined, servername: undefined },
      maxMessageBytes: 16 * 1024 * 1024,
      backoff: { firstMs: 1000, mostMs: 60_000 },
    })
  })

  test('a control plane and a directory exclude each other, also in a variable', () => {
    const env = { SLUICE_ENVOY_CONFIG: 'ratelimit' }
    expect(messagesOf('envoy: { xds: { server: "a:1", nodeId: n } }', { env })).toEqual([
      `${FILE}:1:15: envoy.xds: bad value beside SLUICE_ENVOY_CONFIG. Accepted: one of the two: a control plane, or a directory in config or SLUICE_ENVOY_CONFIG`,
    ])
  })

  test('shutdown.within is also checked against the default delay', () => {
    expect(messagesOf('shutdown: { within: 1s }')).toEqual([
      `${FILE}:1:21: shutdown.within: bad value "1s". Accepted: a delay shorter than within: 1000 ms is not below 1000 ms`,
    ])
  })
})

describe('tokens', () => {
  test('are read from a file beside the configuration, without its line end', () => {
    const files = { '/etc/sluice/t': `${TOKEN}\r\n` }
    expect(configOf('api: { tokenFile: t }', { files }).api.token).toBe(TOKEN)
    expect(configOf('admin: { tokenFile: t }', { files }).admin.token).toBe(TOKEN)
  })

  test('in a file that is unreadable or contains an invalid token are never shown', () => {
    expect(messagesOf('api: { tokenFile: hunter2hunter2hunter2 }')).toEqual([
      `${FILE}:1:19: api.tokenFile: bad value of 21 characters, a file that cannot be read: ENOENT. Accepted: the name of a file with a token of 16 to 1024 visible ASCII characters`,
    ])
    expect(
      messagesOf('admin: { tokenFile: t }', { files: { '/etc/sluice/t': 'hunter2' } }),
    ).toEqual([
      `${FILE}:1:21: admin.tokenFile: bad value of 1 characters, a file with 7 characters in it. Accepted: the name of a file with a token of 16 to 1024 visible ASCII characters`,
    ])
  })

  test('allow the API and admin to listen on other addresses than loopback', () => {
    const listen = 'api: { listen: "0.0.0.0:1" }\nadmin: { listen: "0.0.0.0:2" }'
    const env = { SLUICE_API_TOKEN: TOKEN, SLUICE_ADMIN_TOKEN: `${TOKEN}A` }
    expect(configOf(listen, { env }).api.listen.host).toBe('0.0.0.0')
  })

  test('of the API and of admin must differ, wherever they were given', () => {
    const files = { '/etc/sluice/t': `${TOKEN}\n`, '/etc/sluice/u': TOKEN }
    const accepted =
      'another one than that of the API; who may ask for decisions may not administer'
    expect(messagesOf('api: { tokenFile: t }\nadmin: { tokenFile: u }', { files })).toEqual([
      `${FILE}:2:21: admin.tokenFile: the token is given twice. Accepted: ${accepted}`,
    ])
    const env = { SLUICE_ADMIN_TOKEN: TOKEN }
    expect(messagesOf('api: { tokenFile: t }', { files, env })).toEqual([
      `SLUICE_ADMIN_TOKEN: the token is given twice. Accepted: ${accepted}`,
    ])
    expect(JSON.stringify(parse('api: { tokenFile: t }', { files, env }))).not.toContain(TOKEN)
  })

  test('that are invalid are reported once, not also as missing', () => {
    const text = 'api: { listen: "0.0.0.0:1", tokenFile: t }'
    const { errors } = parse(text)
    expect(errors.map(({ field }) => field)).toEqual(['api.tokenFile'])
  })

  test('in a variable keep the token file from being read', () => {
    const env = { SLUICE_API_TOKEN: TOKEN }
    expect(configOf('api: { tokenFile: absent }', { env }).api.token).toBe(TOKEN)
  })
})

describe('an environment variable overrides the file', () => {
  const text = `
rules: a.yaml
dataDir: data
workers: 1
trustedProxies: [10.0.0.0/8]
gateway: { listen: "127.0.0.1:1", upstreams: [{ prefix: /v1, url: "http://127.0.0.1:3000" }] }
api: { listen: "127.0.0.1:2" }
admin: { listen: "127.0.0.1:3" }
`
  test('in every field that it sets', () => {
    const env = {
      SLUICE_KEY_SECRET: '000102030405060708090a0b0c0d0e0f',
      SLUICE_RULES: 'b.yaml',
      SLUICE_DATA_DIR: 'other',
      SLUICE_TRUSTED_PROXIES: '192.0.2.0/24, 2001:db8::/32',
      SLUICE_UPSTREAM: 'http://127.0.0.1:4000',
      SLUICE_GATEWAY_LISTEN: '127.0.0.1:4',
      SLUICE_API_LISTEN: '[::]:5',
      SLUICE_API_TOKEN: TOKEN,
      SLUICE_ADMIN_LISTEN: 'localhost:6',
      SLUICE_ADMIN_TOKEN: `${TOKEN}A`,
    }
    const config = configOf(text, { env })
    expect(config).toMatchObject({
      rules: resolve('b.yaml'),
      dataDir: resolve('other'),
      trustedProxies: [{ text: '192.0.2.0/24' }, { text: '2001:db8::/32' }],
      gateway: { listen: { host: '127.0.0.1', port: 4 } },
      api: { listen: { host: '::', port: 5 }, token: TOKEN },
      admin: { listen: { host: 'localhost', port: 6 }, token: `${TOKEN}A` },
    })
    expect(config.gateway.upstreams).toEqual([
      {
        prefix: '/',
        origin: 'http://127.0.0.1:4000',
        host: 'preserve',
        connections: 256,
        websockets: 256,
        usage: undefined,
      },
    ])
    expect([...(config.keySecret ?? [])]).toEqual(Array.from({ length: 16 }, (_, index) => index))
  })

  test('unless its value is empty', () => {
    const env = { SLUICE_RULES: '', SLUICE_API_LISTEN: '', SLUICE_REDIS_URL: '' }
    expect(configOf(text, { env })).toEqual(configOf(text))
  })

  test('but an invalid value in the file is still reported', () => {
    const env = { SLUICE_API_LISTEN: '127.0.0.1:5' }
    const { errors } = parse('api: { listen: nowhere }', { env })
    expect(errors.map(({ field }) => field)).toEqual(['api.listen'])
  })

  test('and problems of file and variables are reported together, the file first', () => {
    const env = { SLUICE_API_LISTEN: 'nowhere', SLUICE_WORKERS: '0' }
    const { errors } = parse('log: { level: loud }\ngateway: [', { env })
    expect(errors.map(({ field }) => field)).toEqual([
      'document',
      'SLUICE_API_LISTEN',
      'SLUICE_WORKERS',
    ])
  })

  test('and a conflict between the two is reported where it was written', () => {
    const proxyHeaders = 'identity: { proxyHeaders: { user: x-user } }'
    const env = { SLUICE_TRUSTED_PROXIES: '10.0.0.0/8' }
    expect(configOf(proxyHeaders, { env }).identity.proxyHeaders.user).toBe('x-user')
    const clash = { SLUICE_API_LISTEN: '127.0.0.1:1' }
    expect(messagesOf('gateway: { listen: "127.0.0.1:1" }', { env: clash })).toEqual([
      'SLUICE_API_LISTEN: "127.0.0.1:1" is given twice. Accepted: another port than the gateway has, 127.0.0.1:1',
    ])
  })
})

test.each([
  ['allowNoRules: true', {}, true],
  ['allowNoRules: true', { SLUICE_ALLOW_NO_RULES: 'false' }, false],
  ['', { SLUICE_ALLOW_NO_RULES: 'true' }, true],
])(
  'with the file %j and the variables %j, starting without rules is allowed: %s',
  (text, env, expected) => {
    expect(configOf(text, { env })?.allowNoRules).toBe(expected)
  },
)
