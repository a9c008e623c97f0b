import { SluiceError } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import {
  describeTarget,
  formatAddress,
  parseAddress,
  parseRedisUrl,
  type RedisTarget,
} from './redis-target.js'

const PLAIN: RedisTarget = {
  topology: 'standalone',
  tls: false,
  addresses: [{ host: 'redis.example', port: 6379 }],
  name: '',
  username: undefined,
  password: undefined,
  db: 0,
}

const at = (host: string, port: number) => ({ host, port })

describe('parsing a Redis URL', () => {
  test.each<[string, Partial<RedisTarget>]>([
    ['redis://redis.example', {}],
    ['redis://redis.example/', {}],
    ['REDIS://redis.example:6379/0', {}],
    ['valkey://redis.example', {}],
    ['rediss://redis.example', { tls: true }],
    ['valkeys://redis.example', { tls: true }],
    ['redis://redis.example:7000/3', { addresses: [at('redis.example', 7000)], db: 3 }],
    ['redis://:secret@redis.example', { password: 'secret' }],
    ['redis://app:secret@redis.example', { username: 'app', password: 'secret' }],
    ['redis://a%40b:p%2F%3A%40%C3%A9@redis.example', { username: 'a@b', password: 'p/:@é' }],
    ['redis://app:a:b@c@redis.example', { username: 'app', password: 'a:b@c' }],
    ['redis://127.0.0.1', { addresses: [at('127.0.0.1', 6379)] }],
    ['redis://[::1]:7000', { addresses: [at('::1', 7000)] }],
    ['redis://[fe80::1%25eth0]', { addresses: [at('fe80::1%eth0', 6379)] }],
    ['redis://redis_1', { addresses: [at('redis_1', 6379)] }],
    [
      'redis+cluster://a,b:7001,[::1]:7002',
      { topology: 'cluster', addresses: [at('a', 6379), at('b', 7001), at('::1', 7002)] },
    ],
    ['redis+cluster://a/0', { topology: 'cluster', addresses: [at('a', 6379)] }],
    [
      'rediss+cluster://u:p@a',
      { topology: 'cluster', tls: true, username: 'u', password: 'p', addresses: [at('a', 6379)] },
    ],
    [
      'redis+sentinel://a,b:7001/primary',
      { topology: 'sentinel', name: 'primary', addresses: [at('a', 26379), at('b', 7001)] },
    ],
    [
      'rediss+sentinel://:p@a/my.primary-1/2',
      {
        topology: 'sentinel',
        tls: true,
        name: 'my.primary-1',
        db: 2,
        password: 'p',
        addresses: [at('a', 26379)],
      },
    ],
    [
      'redis+sentinel://app:p@a/m?sentinelUser=w%40tch&sentinelPassword=s%3F+%26',
      {
        topology: 'sentinel',
        name: 'm',
        username: 'app',
        password: 'p',
        addresses: [at('a', 26379)],
        sentinel: { username: 'w@tch', password: 's?+&' },
      },
    ],
    [
      'redis+sentinel://a/m/2?sentinelPassword=s',
      {
        topology: 'sentinel',
        name: 'm',
        db: 2,
        addresses: [at('a', 26379)],
        sentinel: { username: undefined, password: 's' },
      },
    ],
    ['valkey+sentinel://a/m/', { topology: 'sentinel', name: 'm', addresses: [at('a', 26379)] }],
    ['valkeys+cluster://a', { topology: 'cluster', tls: true, addresses: [at('a', 6379)] }],
  ])('%s', (url, expected) => {
    expect(parseRedisUrl(url)).toEqual({ ...PLAIN, ...expected })
  })
})

describe('a URL of no accepted form is refused', () => {
  test.each([
    ['', 'an empty text, which is no URL'],
    ['secret', 'a text without ://, which is no URL'],
    ['localhost:6379', 'a text without ://, which is no URL'],
    ['redis:/host', 'a text without ://, which is no URL'],
    ['http://host', 'http://host, which has another scheme'],
    ['redis+cluster+sentinel://a', 'redis+cluster+sentinel://a, which has another scheme'],
    ['redisss://a', 'redisss://a, which has another scheme'],
    ['redis://', 'redis://, where the host is not host or host:port'],
    ['redis://:6379', 'redis://:6379, where the host is not'],
    ['redis://a:', 'redis://a:, where the host is not'],
    ['redis://a:0', 'redis://a:0, where the host is not'],
    ['redis://a:65536', 'redis://a:65536, where the host is not'],
    ['redis://a b', 'redis://a b, where the host is not'],
    ['redis://-a..b', 'redis://-a..b, where the host is not'],
    ['redis://::1', 'where the host is not'],
    ['redis://[::1', 'where the host is not'],
    ['redis://[host]', 'where the host is not'],
    ['redis://a,b', 'redis://a,b, which has several hosts, but neither +cluster nor +sentinel'],
    ['redis+cluster://a,,b', 'where host 2 of 3 is not'],
    ['redis+cluster://a,b/1', 'but a Cluster has no databases beside 0'],
    ['redis://a/x', 'is not a database from 0 to 65535'],
    ['redis://a/-1', 'is not a database'],
    ['redis://a/1.5', 'is not a database'],
    ['redis://a/1/2', 'is not a database'],
    ['redis://a/99999', 'is not a database'],
    ['redis+sentinel://a', 'which lacks the name that the sentinels know the primary by'],
    ['redis+sentinel://a/', 'which lacks the name'],
    ['redis+sentinel://a//1', 'which lacks the name'],
    ['redis+sentinel://a/m/x', 'is not a database'],
    ['redis+sentinel://a/m/1/2', 'is not a database'],
    ['redis+sentinel://a/m?sentinelUser=u', 'where sentinelUser has no sentinelPassword'],
    ['redis+sentinel://a/m?sentinelPassword=', 'where parameters are not sentinelUser and'],
    ['redis+sentinel://a/m?sentinelPassword=a&sentinelPassword=b', 'each once'],
    ['redis+sentinel://a/m?timeout=1', 'where parameters are not sentinelUser and'],
    ['redis+sentinel://a/m?', 'where parameters are not sentinelUser and'],
    ['redis+sentinel://a/m?sentinelPassword=%zz', 'where a % behind the ? is not followed'],
    ['redis+sentinel://:a?b@c/m', 'which has parameters'],
    ['redis+cluster://a?sentinelPassword=b', 'which has parameters'],
    ['redis://@a', 'redis://***@a, where there is no password in front of the @'],
    ['redis://user@a', 'redis://***@a, where there is no password'],
    ['redis://user:@a', 'redis://***@a, where there is no password'],
    [`redis://${'a'.repeat(300)}`, 'where the host is not'],
    [`redis://${'a'.repeat(5000)}`, 'which is longer than 4096 characters'],
    [`redis+cluster://${'a,'.repeat(64)}a`, 'which has more than 64 hosts'],
    ['redis://:pa/ss@a', 'redis://***@a, where a / stands in front of the @ (in a password: %2F)'],
    ['redis://a\n.b', 'where the host is not'],
  ])('%j', (url, expected) => {
    const message = messageOf(url)
    expect(message).toMatch(/^SLUICE_REDIS_URL: found /)
    expect(message).toContain(expected)
    expect(message).toMatch(/; accepted: redis:\/\/.*redis\+cluster:\/\/.*redis\+sentinel:\/\//)
  })

  test.each([
    ['redis://a?db=1'],
    ['redis://a/1?password=secret'],
    ['redis://a#x'],
    ['redis://:pa?secret@a'],
    ['redis://:pa#secret@a'],
  ])('for its parameters: %s', (url) => {
    expect(messageOf(url)).toContain('which has parameters')
  })

  test('for not being a string', () => {
    expect(messageOf(undefined as unknown as string)).toContain(
      'found undefined, which is not a string',
    )
  })
})

describe('a password is never shown', () => {
  test.each([
    'redis://user:secret@',
    'redis://user:secret@a:b:c',
    'redis://user:secret@a?x=1',
    'redis://user:se/secret@a',
    'redis://user:se@secret@ho st',
    'redis://user:secret%zz@a',
    'redis://user:secret',
    'redis://:secret',
    'redis://:secret/0',
    'redis+cluster://user:secret,b',
    'redis://a?password=secret',
    'redis+sentinel://a/m?sentinelPassword=secret&x=1',
    'redis+sentinel://a/m?sentinelPassword=secret%zz',
    'redis+sentinel://a/m?sentinelPassword=secret@b',
    'redis+sentinel://a/m?sentinelUser=secret',
    'redis://a/0#secret',
    'redis:secret@a',
    'user:secret@a',
    'http://user:secret@a',
    '://user:secret@a',
  ])('%s', (url) => {
    expect(messageOf(url)).not.toContain('secret')
  })

  test('in a description, which shows everything else', () => {
    expect(describeTarget(parseRedisUrl('rediss://app:secret@a:1/2'))).toBe(
      'rediss://app:***@a:1/2',
    )
    expect(describeTarget(parseRedisUrl('redis://:secret@a'))).toBe('redis://:***@a:6379')
    expect(describeTarget(parseRedisUrl('valkey+cluster://a,[::1]:2'))).toBe(
      'redis+cluster://a:6379,[::1]:2',
    )
    const url = 'redis+sentinel://a,b:1/m/3'
    for (const parameters of ['', '?sentinelUser=secret&sentinelPassword=secret']) {
      expect(describeTarget(parseRedisUrl(url + parameters))).toBe(
        'redis+sentinel://a:26379,b:1/m/3',
      )
    }
  })
})

describe('the address in a redirection', () => {
  test.each([
    ['10.0.0.1:7000', at('10.0.0.1', 7000), '10.0.0.1:7000'],
    ['node-1.example:7000', at('node-1.example', 7000), 'node-1.example:7000'],
    ['::1:7000', at('::1', 7000), '[::1]:7000'],
    ['[::1]:7000', at('::1', 7000), '[::1]:7000'],
  ])('%s parses', (text, address, written) => {
    expect(parseAddress(text)).toEqual(address)
    expect(formatAddress(address)).toBe(written)
  })

  test.each(['', ':7000', 'a', 'a:', 'a:0', 'a:70000', '?:7000', 'a b:7000', '__proto__', 'a:7x'])(
    'does not parse if it is %j',
    (text) => {
      expect(parseAddress(text)).toBeUndefined()
    },
  )
})

function messageOf(url: string): string {
  try {
    parseRedisUrl(url, 'SLUICE_REDIS_URL')
  } catch (error) {
    expect(error).toBeInstanceOf(SluiceError)
    expect(error).toMatchObject({ code: 'OPTION_INVALID' })
    return (error as SluiceError).message
  }
  throw new Error(`${url} was accepted`)
}
