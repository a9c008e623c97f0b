import { describe, expect, test } from 'vitest'
import { parseConfig } from './parse-config.js'

const FILE = '/etc/sluice/sluice.yaml'

function parse(text: string | undefined, env: Readonly<Record<string, string>> = {}) {
  return parseConfig(text, { file: FILE, env, readFile: () => '' })
}

function redisOf(text: string | undefined, env: Readonly<Record<string, string>> = {}) {
  const { config, errors } = parse(text, env)
  if (config === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return config.redis
}

const messagesOf = (text: string | undefined, env: Readonly<Record<string, string>> = {}) =>
  parse(text, env).errors.map(({ message }) => message)

const DEFAULTS = {
  url: 'redis://10.0.0.1',
  deadlineMs: 50,
  prefix: 'sluice',
  layout: 'plain',
  client: 'ioredis',
  denyCacheMs: 1000,
  clockToleranceMs: 100,
  fleetSize: 1,
  allowEviction: false,
  tls: undefined,
}

describe('the counter store', () => {
  test('is memory if there is no URL, whatever the deadline', () => {
    expect(redisOf(undefined)).toBeUndefined()
    expect(redisOf('redis: {}')).toBeUndefined()
    expect(redisOf(undefined, { SLUICE_STORE_DEADLINE_MS: '5' })).toBeUndefined()
  })

  test('is Redis if there is a URL alone, and every other setting has its default', () => {
    expect(redisOf('redis: { url: "redis://10.0.0.1" }')).toEqual(DEFAULTS)
    expect(redisOf(undefined, { SLUICE_REDIS_URL: 'redis://10.0.0.1' })).toEqual(DEFAULTS)
  })

  test('is what the environment sets rather than the file', () => {
    const text = 'redis: { url: "redis://10.0.0.1", deadline: 5ms, prefix: a }'
    const env = { SLUICE_REDIS_URL: 'redis://10.0.0.2', SLUICE_STORE_DEADLINE_MS: '7' }
    expect(redisOf(text, env)).toEqual({
      ...DEFAULTS,
      url: 'redis://10.0.0.2',
      deadlineMs: 7,
      prefix: 'a',
    })
  })

  test('has a problem if other settings of Redis are there but no URL', () => {
    expect(messagesOf('redis: { deadline: 5ms }')[0]).toContain('redis.url: missing')
    expect(messagesOf('redis: { deadline: 5ms }', { SLUICE_REDIS_URL: 'redis://a' })).toEqual([])
  })

  test('has its mistakes in the file reported even if a variable overrides them', () => {
    const messages = messagesOf('redis: { url: 7 }', { SLUICE_REDIS_URL: 'redis://a' })
    expect(messages).toHaveLength(1)
  })
})

describe('several workers', () => {
  test('are accepted with Redis and with memory', () => {
    expect(messagesOf('workers: 4\nredis: { url: "redis://10.0.0.1" }')).toEqual([])
    expect(messagesOf('workers: 4')).toEqual([])
  })

  test('are not reported if the URL is invalid: only the URL is', () => {
    expect(messagesOf('workers: 4\nredis: { url: "redis:/10.0.0.1" }')).toHaveLength(1)
  })
})

describe('TLS to Redis', () => {
  test('reads its files relative to the configuration', () => {
    const tls = '{ ca: ca.pem, cert: /a/cert.pem, key: ../key.pem, servername: redis.example }'
    expect(redisOf(`redis: { url: "rediss://10.0.0.1", tls: ${tls} }`)?.tls).toEqual({
      ca: '/etc/sluice/ca.pem',
      cert: '/a/cert.pem',
      key: '/etc/key.pem',
      servername: 'redis.example',
    })
  })

  test.each(['rediss://a', 'valkeys://a', 'rediss+cluster://a', 'REDISS+sentinel://a/b'])(
    'can be configured for %s',
    (url) => {
      expect(messagesOf(`redis: { url: "${url}", tls: { ca: ca.pem } }`)).toEqual([])
    },
  )

  test.each(['redis://a', 'valkey://a', 'redis+cluster://rediss'])(
    'is refused for %s, whose connections would be in clear text',
    (url) => {
      const [message] = messagesOf(`redis: { url: "${url}", tls: { ca: ca.pem } }`)
      expect(message).toContain('redis.tls: bad value beside a URL without TLS')
    },
  )
})
