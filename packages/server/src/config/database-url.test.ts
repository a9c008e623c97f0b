import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { describeDatabase, parseDatabaseUrl } from './database-url.js'

const NONE = { ca: undefined, cert: undefined, key: undefined }

describe('a Postgres URL', () => {
  test('contains host, port, database, user and password', () => {
    expect(parseDatabaseUrl('postgres://me:p%40ss%2Fw@db.internal:6432/rules')).toEqual({
      host: 'db.internal',
      port: 6432,
      database: 'rules',
      user: 'me',
      password: 'p@ss/w',
      tls: 'verify-full',
      files: NONE,
    })
  })

  test.each([
    [
      'postgres://me@db',
      { host: 'db', port: 5432, database: 'me', user: 'me', password: undefined },
    ],
    ['postgresql://db/a', { user: undefined, database: 'a' }],
    ['POSTGRES://[2001:db8::1]:1/a', { host: '2001:db8::1', port: 1 }],
    ['postgres://me@/a?host=/run/pg&port=7', { host: '/run/pg', port: 7, tls: 'off' }],
    ['postgres://%2Frun%2Fpg/a', { host: '/run/pg', database: 'a', tls: 'off' }],
    ['postgres://db_1:5432/a%20b', { host: 'db_1', database: 'a b' }],
  ])('%s', (url, expected) => {
    expect(parseDatabaseUrl(url)).toMatchObject(expected)
  })

  test.each([
    ['postgres://localhost/a', 'off'],
    ['postgres://127.0.0.9/a', 'off'],
    ['postgres://[::1]/a', 'off'],
    ['postgres://[::1]/a?sslmode=require', 'verify-full'],
    ['postgres://localhost/a?sslrootcert=ca.pem', 'verify-full'],
    ['postgres://10.0.0.1/a', 'verify-full'],
    ['postgres://10.0.0.1/a?sslmode=require', 'verify-full'],
    ['postgres://10.0.0.1/a?sslmode=verify-full', 'verify-full'],
    ['postgres://10.0.0.1/a?sslmode=verify-ca', 'verify-ca'],
    ['postgres://10.0.0.1/a?sslmode=disable', 'off'],
  ])('TLS of %s is %s', (url, tls) => {
    expect(parseDatabaseUrl(url).tls).toBe(tls)
  })

  test.each([
    ['postgres:///a', 'where the host is not host or host:port'],
    ['postgres://a/b?host=/x', 'with two hosts'],
    ['postgres://a:1/b?port=2', 'with two ports'],
    ['postgres://a:0/b', 'where the port is not 1 to 65535'],
    ['postgres://a/b?sslmode=disable&sslmode=disable', 'with sslmode twice'],
    ['postgres://a/b?sslmode=', 'with an empty sslmode'],
    ['postgres://a/b?sslmode=disable&sslrootcert=x', 'files of TLS beside disable'],
    ['postgres:///b?host=/x&sslmode=require', 'a socket, which has no TLS'],
    ['postgres://:secret@a/b', 'where there is no user in front of the @'],
    ['postgres://a/b c', 'with a space or a #'],
    ['postgres://a/%00', 'where a % in the database is no character'],
    ['postgres://a..b/c', 'where the host is not host or host:port'],
    ['postgres://[::1/c', 'where the host is not host or host:port'],
    [`postgres://a/${'b'.repeat(5000)}`, 'longer than 4096 letters'],
  ])('%s is refused', (url, why) => {
    expect(() => parseDatabaseUrl(url)).toThrow(why)
  })

  test('is shown without user and password', () => {
    const url = 'postgres://me:hunter2@[2001:db8::1]/rules'
    expect(describeDatabase(parseDatabaseUrl(url))).toBe('[2001:db8::1]:5432/rules')
  })
})

test('no message contains a piece of a password, wherever a letter is added or lost', () => {
  const secret = 'zQ7wX9zQ7wX9'
  const whole = `postgres://me:${secret}@db.internal:5432/rules?sslmode=require`
  const letter = fc.constantFrom('/', '?', '#', '@', ':', '%', '[', ']', ',', '&', ' ', '=', 'x')
  const edit = fc.record({ at: fc.nat(whole.length), cut: fc.nat(3), put: letter })
  fc.assert(
    fc.property(edit, ({ at, cut, put }) => {
      try {
        parseDatabaseUrl(whole.slice(0, at) + put + whole.slice(at + cut))
      } catch (error) {
        expect(String(error)).toMatch(/^RangeError: the URL of Postgres: found .*; accepted: /)
        for (let start = 0; start + 4 <= secret.length; start++) {
          expect(String(error)).not.toContain(secret.slice(start, start + 4))
        }
      }
    }),
    { numRuns: 2000 },
  )
})
