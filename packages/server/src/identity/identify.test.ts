import { createServer, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { once } from 'node:events'
import { ATTRIBUTE_LENGTH_MAX } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import {
  createTestIdentifier,
  identifyNow,
  knownKey,
  PEER,
  SECRET,
  requestFrom,
} from './identify.test-helper.js'
import { maskValue, maskingKey } from './masked-value.js'

const key = 'sk_live_0123456789abcdefwxyz'
const secretKey = maskingKey(SECRET)

/** Pseudo-random numbers that are the same in every run. */
function dice(seed: number): (sides: number) => number {
  let state = seed
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * sides)
  }
}

/** A server that returns its requests to the test. */
async function serve() {
  const server = createServer((_, response) => void response.end()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    port: typeof address === 'object' ? (address?.port ?? 0) : 0,
    next: async (): Promise<IncomingMessage> => (await once(server, 'request'))[0],
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

describe('an API key', () => {
  const keys = [
    knownKey(key, { user: 'u1', plan: 'pro' }),
    knownKey('another-key-that-was-withdrawn', { user: 'u2', state: 'disabled' }),
    knownKey('schlüssel-mit-umlaut', { user: 'u3' }),
  ]
  const door = createTestIdentifier({ keys })

  test('that is known and enabled yields api_key, user and plan', () => {
    const { attributes, problem } = identifyNow(door, requestFrom([['X-API-Key', key]]))
    expect(attributes).toEqual({
      ip: PEER,
      api_key: maskValue(secretKey, 'api_key', key),
      user: 'u1',
      plan: 'pro',
    })
    expect(attributes.api_key).toMatch(/^[0-9a-f]{16}\.\.wxyz$/)
    expect(problem).toBeUndefined()
  })

  test('that is disabled yields no identity', () => {
    const request = requestFrom([['x-api-key', 'another-key-that-was-withdrawn']])
    const { attributes, problem } = identifyNow(door, request)
    expect(attributes).toEqual({ ip: PEER })
    expect(problem).toBe('disabled_key')
  })

  test('is compared by the bytes that were sent', () => {
    const bytes = Buffer.from('schlüssel-mit-umlaut').toString('latin1')
    expect(identifyNow(door, requestFrom([['x-api-key', bytes]])).attributes.user).toBe('u3')
  })

  test('of more than 512 characters is unknown', () => {
    const long = 'k'.repeat(513)
    const wide = createTestIdentifier({ keys: [knownKey(long, { user: 'u1' })] })
    const { attributes, problem } = identifyNow(wide, requestFrom([['x-api-key', long]]))
    expect(attributes).toEqual({ ip: PEER })
    expect(problem).toBe('unknown_key')
  })

  test('that is empty is ignored', () => {
    expect(identifyNow(door, requestFrom([['x-api-key', '']]))).toMatchObject({
      attributes: { ip: PEER },
      problem: undefined,
    })
  })

  test('that 10,000 callers invent yields no identity, and each is counted', () => {
    const counted = createTestIdentifier({ keys })
    for (let i = 0; i < 10_000; i++) {
      const { attributes, problem } = identifyNow(
        counted,
        requestFrom([['x-api-key', `${key}${i}`]]),
      )
      expect(attributes).toEqual({ ip: PEER })
      expect(problem).toBe('unknown_key')
    }
    expect(counted.stats().problems.unknown_key).toBe(10_000)
  })

  test('in Authorization follows Bearer, and other schemes are ignored', () => {
    const bearer = createTestIdentifier({
      keys,
      apiKey: { header: 'authorization', unknown: 'anonymous' },
    })
    const user = (value: string) =>
      identifyNow(bearer, requestFrom([['Authorization', value]])).attributes.user
    expect(user(`Bearer ${key}`)).toBe('u1')
    expect(user(`bearer   ${key}`)).toBe('u1')
    expect(user(`Basic ${key}`)).toBeUndefined()
    expect(user(key)).toBeUndefined()
    expect(bearer.stats().problems.unknown_key).toBe(0)
  })
})

describe('a client cannot choose its identity:', () => {
  test('10,000 mixes of forwarding and identity headers from one peer are one caller', () => {
    const draw = dice(7)
    const spoofed = () => `${draw(256)}.${draw(256)}.${draw(256)}.${draw(256)}`
    const makers: readonly (() => [string, string])[] = [
      () => ['X-Forwarded-For', `${spoofed()}, ${spoofed()}`],
      () => ['x-forwarded-for', `10.0.0.${draw(256)}`],
      () => ['Forwarded', `for=${spoofed()};proto=https, for="[2001:db8::${draw(9999)}]"`],
      () => ['X-Real-IP', spoofed()],
      () => ['CF-Connecting-IP', spoofed()],
      () => ['True-Client-IP', spoofed()],
      () => ['X-Client-IP', spoofed()],
      () => ['X-Forwarded-Host', `host${draw(1000)}.example`],
      () => ['X-Auth-User', `user${draw(1000)}`],
      () => ['X-Auth-Plan', ['pro', 'partner'][draw(2)] ?? ''],
      () => ['X_Auth_User', `user${draw(1000)}`],
    ]
    for (const forwardedHeader of ['x-forwarded-for', 'forwarded'] as const) {
      const door = createTestIdentifier({
        trusted: ['10.0.0.0/8', '192.0.2.0/24'],
        forwardedHeader,
      })
      for (let i = 0; i < 10_000; i++) {
        const headers = Array.from({ length: draw(8) }, () => makers[draw(makers.length)]?.())
        const request = requestFrom(headers.filter((header) => header !== undefined))
        expect(identifyNow(door, request)).toEqual({
          attributes: { ip: PEER },
          trusted: false,
          peer: PEER,
          forwardedFor: PEER,
          problem: undefined,
        })
      }
      expect(door.stats().ignoredForwarded).toBeGreaterThan(1000)
    }
  })

  test('without trusted proxies, forwarding headers are counted and ignored', () => {
    const door = createTestIdentifier()
    const request = requestFrom([['X-Forwarded-For', '203.0.113.1']])
    expect(identifyNow(door, request)).toMatchObject({ attributes: { ip: PEER }, trusted: false })
    expect(door.stats().ignoredForwarded).toBe(1)
  })

  test('a priority is that of a trusted proxy, and of nobody else', () => {
    const headers: [string, string][] = [['x-priority', 'critical']]
    const door = createTestIdentifier({ trusted: ['10.0.0.0/8'] })
    const { attributes } = identifyNow(door, requestFrom(headers, '10.1.2.3'))
    expect(attributes.priority).toBe('critical')
    expect(identifyNow(door, requestFrom(headers)).attributes).toEqual({ ip: PEER })
  })

  test('user and plan of a trusted proxy are used, unless a known key sets them', () => {
    const door = createTestIdentifier({
      trusted: ['10.0.0.0/8'],
      keys: [knownKey(key, { user: 'u1' })],
    })
    const fromProxy: [string, string][] = [
      ['X-Forwarded-For', '203.0.113.1'],
      ['X-Auth-User', 'josé'],
      ['X-Auth-Plan', 'pro'],
    ]
    expect(identifyNow(door, requestFrom(fromProxy, '10.1.2.3'))).toMatchObject({
      attributes: { ip: '203.0.113.1', user: 'josé', plan: 'pro' },
      trusted: true,
    })
    const withKey = requestFrom([...fromProxy, ['X-Api-Key', key]], '10.1.2.3')
    expect(identifyNow(door, withKey).attributes).toMatchObject({ user: 'u1', plan: 'pro' })
    expect(identifyNow(door, requestFrom(fromProxy, '11.1.2.3')).attributes).toEqual({
      ip: '11.1.2.3',
    })
  })

  test('a peer that disconnected has no address, and there is no call', () => {
    const door = createTestIdentifier({ keys: [knownKey(key, { user: 'u1' })] })
    for (const gone of [undefined, '', 'unix']) {
      const request = { rawHeaders: ['x-api-key', key], socket: { remoteAddress: gone } }
      expect(identifyNow(door, request)).toMatchObject({ attributes: {}, problem: 'no_address' })
    }
  })
})

describe('a declared header', () => {
  const headers = [
    { attribute: 'tenant', header: 'x-tenant', open: true },
    { attribute: 'session', header: 'x-session', open: false },
  ]
  const door = createTestIdentifier({ headers })

  test('is shown if it is public, and masked otherwise', () => {
    const session = 'a-session-of-some-length'
    const { attributes } = identifyNow(
      door,
      requestFrom([
        ['X-Tenant', 'acme'],
        ['X-Session', session],
      ]),
    )
    expect(attributes).toEqual({
      ip: PEER,
      tenant: 'acme',
      session: maskValue(secretKey, 'session', session),
    })
    expect(attributes.session).not.toContain('a-session')
  })

  test('in UTF-8 is decoded to the text in rules; other bytes stay distinct', () => {
    const tenant = (bytes: Buffer) =>
      identifyNow(door, requestFrom([['x-tenant', bytes.toString('latin1')]])).attributes.tenant
    expect(tenant(Buffer.from('zürich'))).toBe('zürich')
    expect(tenant(Buffer.from([0x7a, 0xff]))).toBe('z\u00ff')
  })

  test('that is too long stays unchanged, for the limiter to refuse', () => {
    const long = 's'.repeat(ATTRIBUTE_LENGTH_MAX + 1)
    expect(identifyNow(door, requestFrom([['x-session', long]])).attributes.session).toBe(long)
    const longest = 's'.repeat(ATTRIBUTE_LENGTH_MAX)
    expect(
      identifyNow(door, requestFrom([['x-session', longest]])).attributes.session,
    ).toHaveLength(22)
  })
})

describe('a header that is sent twice', () => {
  const door = createTestIdentifier({
    trusted: ['10.0.0.0/8'],
    keys: [knownKey(key, { user: 'u1' })],
    headers: [{ attribute: 'tenant', header: 'x-tenant', open: true }],
  })

  test.each(['X-Api-Key', 'X-Tenant'])('is ambiguous: %s', (name) => {
    const twice = requestFrom([
      [name, key],
      [name.toLowerCase(), key],
      ['x-other', '1'],
    ])
    const { attributes, problem } = identifyNow(door, twice)
    expect(problem).toBe('ambiguous_header')
    expect(attributes).toEqual({ ip: PEER })
  })

  test('is ambiguous even beside an unknown key', () => {
    const request = requestFrom([
      ['x-api-key', 'nobody'],
      ['x-tenant', 'a'],
      ['x-tenant', 'b'],
    ])
    expect(identifyNow(door, request).problem).toBe('ambiguous_header')
  })

  test('by a trusted proxy is ambiguous; by any other peer it is ignored', () => {
    const twice: [string, string][] = [
      ['x-auth-user', 'victim'],
      ['x-auth-user', 'u2'],
    ]
    expect(identifyNow(door, requestFrom(twice, '10.0.0.1'))).toMatchObject({
      attributes: { ip: '10.0.0.1' },
      problem: 'ambiguous_header',
    })
    expect(identifyNow(door, requestFrom(twice))).toMatchObject({
      attributes: { ip: PEER },
      problem: undefined,
    })
  })

  test('over a real socket is detected, although Node joins or drops it', async () => {
    await using server = await serve()
    const head = 'GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: a\r\nX-Tenant: b\r\n\r\n'
    const socket = connect(server.port, '127.0.0.1')
    socket.write(head)
    const identity = identifyNow(door, await server.next())
    expect(identity).toMatchObject({ peer: '127.0.0.1', problem: 'ambiguous_header' })
    socket.destroy()
  })
})

test('a caller that resets its connection at once has no address, and is not admitted', async () => {
  await using server = await serve()
  const door = createTestIdentifier()
  const socket = connect(server.port, '127.0.0.1')
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n', () => socket.resetAndDestroy())
  const request = await server.next()
  await once(request.socket, 'close')
  expect(identifyNow(door, request).problem).toBe('no_address')
})
