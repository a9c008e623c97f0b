import { describe, expect, test } from 'vitest'
import type { Environment } from '../variables.js'
import { parseRatelimitEnvironment, type RatelimitConfig } from './ratelimit-environment.js'

const REDIS = { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: 'redis.redis.svc:6379' }

function configOf(env: Environment = {}): RatelimitConfig {
  const { config, errors } = parseRatelimitEnvironment({ ...REDIS, ...env })
  if (config === undefined) throw new Error(errors.join('\n'))
  return config
}

const errorsOf = (env: Environment) => parseRatelimitEnvironment({ ...REDIS, ...env }).errors
const envoyOf = (env: Environment = {}) => configOf(env).config.envoy
const redisUrlOf = (env: Environment) => configOf(env).config.redis?.url

describe('with nothing but Redis', () => {
  test('listens and counts as envoyproxy/ratelimit does by default', () => {
    const { config, listeners, waitsForConfig } = configOf()
    expect(listeners).toEqual({
      http: { host: '0.0.0.0', port: 8080 },
      grpc: { host: '0.0.0.0', port: 8081 },
      debug: { host: '0.0.0.0', port: 6070 },
      metrics: undefined,
    })
    expect(waitsForConfig).toBe(true)
    expect(config.envoy).toMatchObject({
      listen: { host: '0.0.0.0', port: 8081 },
      tls: undefined,
      insecure: true,
      config: '/srv/runtime_data/current/config',
      xds: undefined,
      shadow: false,
      quota: false,
      headers: 'none',
      metadata: false,
      mergeDomains: false,
      defaults: { counting: 'reference', requireMatch: false },
      nearLimitRatio: 0.8,
      maxAgeMs: 86_400_000,
    })
    expect(config.redis).toMatchObject({
      url: 'redis://redis.redis.svc:6379',
      prefix: 'sluice',
      tls: undefined,
    })
    expect(config.log.level).toBe('info')
  })

  test('no variable is reported as one without effect', () => {
    expect(parseRatelimitEnvironment(REDIS).ignored).toEqual([])
  })
})

test('the environment of Envoy Gateway is understood, and only its mapping has no effect', () => {
  const env = {
    RUNTIME_ROOT: '/data',
    RUNTIME_SUBDIRECTORY: 'ratelimit',
    RUNTIME_IGNOREDOTFILES: 'true',
    RUNTIME_WATCH_ROOT: 'false',
    LOG_LEVEL: 'info',
    USE_STATSD: 'false',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: 'envoy-gateway:18001',
    CONFIG_GRPC_XDS_NODE_ID: 'envoy-ratelimit',
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: '/certs/tls.crt',
    GRPC_SERVER_TLS_KEY: '/certs/tls.key',
    GRPC_SERVER_TLS_CA_CERT: '/certs/ca.crt',
    CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
    CONFIG_GRPC_XDS_CLIENT_TLS_CERT: '/certs/tls.crt',
    CONFIG_GRPC_XDS_CLIENT_TLS_KEY: '/certs/tls.key',
    CONFIG_GRPC_XDS_SERVER_TLS_CACERT: '/certs/ca.crt',
    FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
    REDIS_TLS: 'true',
    REDIS_TLS_CLIENT_CERT: '/redis-certs/tls.crt',
    REDIS_TLS_CLIENT_KEY: '/redis-certs/tls.key',
    USE_PROMETHEUS: 'true',
    PROMETHEUS_ADDR: ':19001',
    PROMETHEUS_MAPPER_YAML: '/etc/statsd-exporter/conf.yaml',
  }
  const { config, listeners, waitsForConfig } = configOf(env)
  expect(waitsForConfig).toBe(false)
  expect(listeners.metrics).toEqual({ listen: { host: '0.0.0.0', port: 19_001 }, path: '/metrics' })
  const files = { cert: '/certs/tls.crt', key: '/certs/tls.key' }
  expect(config.envoy).toMatchObject({
    config: undefined,
    tls: { ...files, clientCa: undefined },
    xds: {
      server: { host: 'envoy-gateway', port: 18_001 },
      nodeId: 'envoy-ratelimit',
      tls: { ...files, ca: '/certs/ca.crt', servername: undefined },
      backoff: { firstMs: 1000, mostMs: 60_000 },
    },
  })
  expect(config.redis).toMatchObject({
    url: 'rediss://redis.redis.svc:6379',
    tls: { ca: undefined, cert: '/redis-certs/tls.crt', key: '/redis-certs/tls.key' },
  })
  const { ignored } = parseRatelimitEnvironment({ ...REDIS, ...env })
  expect(ignored.map(({ variables }) => variables)).toEqual([['PROMETHEUS_MAPPER_YAML']])
})

describe('Redis', () => {
  test.each<[Environment, string]>([
    [{ REDIS_AUTH: 'p@ss:w' }, 'redis://p%40ss:w@redis.redis.svc:6379'],
    [{ REDIS_AUTH: 'secret' }, 'redis://:secret@redis.redis.svc:6379'],
    [{ REDIS_TYPE: 'SINGLE', REDIS_TLS: '1' }, 'rediss://redis.redis.svc:6379'],
    [{ REDIS_URL: 'rediss://u:p@h:1/2' }, 'rediss://u:p@h:1/2'],
    [{ REDIS_URL: 'redis://h:1', REDIS_AUTH: 'u:p' }, 'redis://u:p@h:1'],
    [{ REDIS_TYPE: 'CLUSTER', REDIS_URL: 'a:1,b:2' }, 'redis+cluster://a:1,b:2'],
    [
      {
        REDIS_TYPE: 'sentinel',
        REDIS_URL: 'mymaster,a:1,b:2',
        REDIS_AUTH: 'p',
        REDIS_SENTINEL_AUTH: 'u:q',
      },
      'redis+sentinel://:p@a:1,b:2/mymaster?sentinelUser=u&sentinelPassword=q',
    ],
  ])('%j is the URL %s', (env, url) => {
    expect(redisUrlOf(env)).toBe(url)
  })

  test('the deadline, the secret of keys and the data directory are those of Sluice', () => {
    const env = {
      SLUICE_STORE_DEADLINE_MS: '20',
      SLUICE_DATA_DIR: '/data',
      CACHE_KEY_PREFIX: 'rl:',
    }
    const { redis, dataDir } = configOf(env).config
    expect(redis).toMatchObject({ deadlineMs: 20, prefix: 'rl:' })
    expect(dataDir).toBe('/data')
  })

  test('counters are in memory only if that is said', () => {
    expect(configOf({ BACKEND_TYPE: 'memory' }).config.redis).toBeUndefined()
    expect(parseRatelimitEnvironment({}).errors).toEqual([
      'REDIS_URL: missing. Accepted: host:port of Redis; without it each process would count for itself, which BACKEND_TYPE=memory says explicitly',
    ])
  })
})

describe('the rate limit service', () => {
  test('has the modes and headers of the variables', () => {
    const env = {
      SHADOW_MODE: 'true',
      QUOTA_MODE: 't',
      RESPONSE_DYNAMIC_METADATA: 'TRUE',
      MERGE_DOMAIN_CONFIG: '1',
      STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true',
      NEAR_LIMIT_RATIO: '0.5',
      GRPC_MAX_CONNECTION_AGE: '1h30m',
      LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
      LIMIT_RESET_HEADER: 'X-Reset',
      LOG_LEVEL: 'Warning',
    }
    expect(envoyOf(env)).toMatchObject({
      shadow: true,
      quota: true,
      metadata: true,
      mergeDomains: true,
      defaults: { counting: 'sluice' },
      nearLimitRatio: 0.5,
      maxAgeMs: 5_400_000,
      headers: { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'X-Reset' },
    })
    expect(configOf(env).config.log.level).toBe('warn')
  })

  test('has client certificates with an authority of clients', () => {
    const env = {
      GRPC_SERVER_USE_TLS: 'true',
      GRPC_SERVER_TLS_CERT: '/c',
      GRPC_SERVER_TLS_KEY: '/k',
      GRPC_CLIENT_TLS_CACERT: '/ca',
    }
    expect(envoyOf(env).tls).toEqual({ cert: '/c', key: '/k', clientCa: '/ca' })
  })

  test('follows a control plane with metadata, headers, a name to verify and pauses', () => {
    const env = {
      CONFIG_TYPE: 'grpc_xds_sotw',
      CONFIG_GRPC_XDS_NODE_METADATA: 'zone=a,cluster=b=c',
      CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'X-Tenant:a:b',
      CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
      CONFIG_GRPC_XDS_SERVER_TLS_SAN: 'envoy-gateway',
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '500ms',
      XDS_CLIENT_BACKOFF_MAX_INTERVAL: '30s',
      XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: '1048576',
    }
    expect(envoyOf(env).xds).toEqual({
      server: { host: 'localhost', port: 18_000 },
      nodeId: 'default',
      nodeMetadata: new Map([
        ['zone', 'a'],
        ['cluster', 'b=c'],
      ]),
      headers: new Map([['x-tenant', 'a:b']]),
      tls: { ca: undefined, cert: undefined, key: undefined, servername: 'envoy-gateway' },
      maxMessageBytes: 1_048_576,
      backoff: { firstMs: 500, mostMs: 30_000 },
    })
  })

  test.each([
    ['dns:///Envoy_Gateway.ns.svc:1', { host: 'envoy_gateway.ns.svc', port: 1 }],
    ['[::1]:18001', { host: '::1', port: 18_001 }],
  ])('follows the control plane %s', (url, server) => {
    const env = { CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: url }
    expect(envoyOf(env).xds?.server).toEqual(server)
  })

  test('listens where the variables say, also over IPv6', () => {
    const env = { HOST: '::1', PORT: '1', GRPC_HOST: '[::]', GRPC_PORT: '2', DEBUG_PORT: '3' }
    expect(configOf(env).listeners).toMatchObject({
      http: { host: '::1', port: 1 },
      grpc: { host: '::', port: 2 },
      debug: { host: '0.0.0.0', port: 3 },
    })
  })

  test('is healthy without a configuration only if nothing asks for one', () => {
    const force = { FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' }
    expect(configOf(force).waitsForConfig).toBe(false)
    const both = { ...force, HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true' }
    expect(configOf(both).waitsForConfig).toBe(true)
  })
})

describe('a value that cannot be honoured names its variable and what is accepted', () => {
  test.each<[Environment, string]>([
    [
      { BACKEND_TYPE: 'memcache' },
      'BACKEND_TYPE: bad value "memcache". Accepted: redis; memory for a single process; memcache is not supported',
    ],
    [
      { REDIS_SOCKET_TYPE: 'unix' },
      'REDIS_SOCKET_TYPE: bad value "unix". Accepted: tcp; a Unix socket is not supported',
    ],
    [{ REDIS_TYPE: 'ring' }, 'REDIS_TYPE: bad value "ring". Accepted: single, sentinel, cluster'],
    [
      { REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: 'true' },
      'REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: bad value "true". Accepted: false; a certificate with another name than that of the host is not accepted',
    ],
    [{ SHADOW_MODE: 'yes' }, 'SHADOW_MODE: bad value "yes". Accepted: true or false'],
    [{ PORT: 'http' }, 'PORT: bad value "http". Accepted: a port from 0 to 65535'],
    [
      { GRPC_PORT: '8080' },
      'GRPC_PORT: "8080" is given twice. Accepted: another port than PORT has, 0.0.0.0:8080',
    ],
    [{ CONFIG_TYPE: 'CONSUL' }, 'CONFIG_TYPE: bad value "CONSUL". Accepted: FILE, GRPC_XDS_SOTW'],
    [
      { CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: 'http://a' },
      'CONFIG_GRPC_XDS_SERVER_URL: bad value "http://a". Accepted: host:port of the control plane, such as envoy-gateway:18001',
    ],
    [
      { CONFIG_TYPE: 'GRPC_XDS_SOTW', XDS_CLIENT_BACKOFF_MAX_INTERVAL: '60' },
      'XDS_CLIENT_BACKOFF_MAX_INTERVAL: bad value "60". Accepted: a duration from 10ms to 3600000ms, such as 10s or 1m30s',
    ],
    [
      { NEAR_LIMIT_RATIO: '80' },
      'NEAR_LIMIT_RATIO: bad value "80". Accepted: a number from 0 to 1, such as 0.8',
    ],
    [
      { CACHE_KEY_PREFIX: 'a{b}' },
      'CACHE_KEY_PREFIX: bad value "a{b}". Accepted: 1 to 64 letters, digits, ".", "_", ":" and "-"',
    ],
    [
      { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', LIMIT_LIMIT_HEADER: 'a b' },
      'LIMIT_LIMIT_HEADER: bad value "a b". Accepted: the name of a header, as RateLimit-Limit',
    ],
    [
      { GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: '/c' },
      'GRPC_SERVER_TLS_KEY: missing. Accepted: the name of a PEM file; a certificate needs both cert and key',
    ],
    [
      { GRPC_SERVER_USE_TLS: 'true' },
      'GRPC_SERVER_TLS_CERT: missing. Accepted: the name of a PEM file, with GRPC_SERVER_USE_TLS=true',
    ],
    [
      { GRPC_CLIENT_TLS_CACERT: '/ca' },
      'GRPC_CLIENT_TLS_CACERT: bad value "/ca". Accepted: nothing without GRPC_SERVER_USE_TLS=true; clients have certificates with TLS only',
    ],
    [
      { GRPC_UDS: '/tmp/s' },
      'GRPC_UDS: bad value "/tmp/s". Accepted: nothing; the service listens on GRPC_HOST and GRPC_PORT',
    ],
    [
      { USE_PROMETHEUS: 'true', PROMETHEUS_PATH: 'metrics' },
      'PROMETHEUS_PATH: bad value "metrics". Accepted: a path such as /metrics',
    ],
    [
      { LOG_LEVEL: 'verbose' },
      'LOG_LEVEL: bad value "verbose". Accepted: trace, debug, info, warn, warning, error, fatal, panic',
    ],
    [
      { SLUICE_STORE_DEADLINE_MS: '0' },
      'SLUICE_STORE_DEADLINE_MS: number 0 is out of range. Accepted: a whole number from 1 to 10000',
    ],
  ])('%j', (env, message) => {
    expect(errorsOf(env)).toEqual([message])
  })

  test('the names of clients cannot be checked, so a setting for it is refused', () => {
    expect(errorsOf({ GRPC_CLIENT_TLS_SAN: 'envoy' })[0]).toContain(
      'GRPC_CLIENT_TLS_SAN: bad value',
    )
  })

  test('all problems are reported at once, and none of them shows a secret', () => {
    const errors = errorsOf({
      REDIS_URL: 'redis://:hunter2hunter2@h:99999',
      REDIS_AUTH: 'hunter2hunter2',
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'hunter2hunter2',
      SHADOW_MODE: 'maybe',
    })
    expect(errors).toHaveLength(3)
    expect(errors.join('\n')).not.toContain('hunter2')
    const sentinel = errorsOf({ REDIS_TYPE: 'sentinel', REDIS_URL: 'redis://:hunter2@h' })
    expect(sentinel).toHaveLength(1)
    expect(sentinel.join('\n')).not.toContain('hunter2')
  })
})

describe('variables without effect', () => {
  const ignoredOf = (env: Environment) =>
    parseRatelimitEnvironment({ ...REDIS, ...env }).ignored.map(({ variables }) => variables)

  test('are listed in groups with one reason, and only if they ask for more than the default', () => {
    expect(
      ignoredOf({
        USE_STATSD: 'true',
        STATSD_PORT: '9125',
        REDIS_POOL_SIZE: '20',
        LOCAL_CACHE_SIZE_IN_BYTES: '0',
        REDIS_PERSECOND: 'true',
        REDIS_PERSECOND_URL: 'other:6379',
        TRACING_ENABLED: 'false',
        TRACING_SERVICE_NAME: 'x',
        LOG_FORMAT: 'json',
      }),
    ).toEqual([
      ['USE_STATSD', 'STATSD_PORT'],
      ['REDIS_POOL_SIZE'],
      ['REDIS_PERSECOND', 'REDIS_PERSECOND_URL'],
    ])
  })

  test('are those of Sluice that have a counterpart', () => {
    expect(ignoredOf({ SLUICE_REDIS_URL: 'redis://a', SLUICE_DATA_DIR: '/d' })).toEqual([
      ['SLUICE_REDIS_URL'],
    ])
  })
})
