import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { createHeaderWriter, type UpstreamHeaderContext } from './request-headers.js'

const writer = createHeaderWriter({
  proxyHeaders: ['x-auth-user'],
  identityHeaders: ['x-api-key', 'authorization', 'x-tenant'],
})

const SENT: UpstreamHeaderContext = {
  trusted: false,
  forwardedFor: '203.0.113.7',
  host: 'api.example',
  proto: 'http',
  tags: [],
}

/** The headers that the upstream gets in addition to those that the gateway always writes. */
function passed(
  pairs: readonly (readonly [string, string])[],
  more: Partial<UpstreamHeaderContext> = {},
) {
  const headers: Record<string, string> = { host: 'api.example' }
  for (const [name, value] of pairs) {
    const lower = name.toLowerCase()
    headers[lower] = lower in headers ? `${headers[lower]}, ${value}` : value
  }
  const request = { rawHeaders: pairs.flat(), headers } as unknown as IncomingMessage
  const flat = writer.write(request, { ...SENT, ...more })
  const found: [string, string][] = []
  for (let i = 0; i < flat.length; i += 2) found.push([flat[i] ?? '', flat[i + 1] ?? ''])
  return found
}

const OWN = [
  ['host', 'api.example'],
  ['x-forwarded-for', '203.0.113.7'],
  ['x-forwarded-proto', 'http'],
  ['x-forwarded-host', 'api.example'],
]

describe('the upstream receives', () => {
  test('the client’s headers with their spelling, including repeated ones', () => {
    const pairs = [
      ['Accept', 'a'],
      ['X-Thing', '1'],
      ['x-thing', '2'],
      ['Cookie', 'c=1'],
    ] as const
    expect(passed(pairs)).toEqual([OWN[0], ...pairs, ...OWN.slice(1)])
  })

  test.each([
    'Connection',
    'Keep-Alive',
    'Proxy-Connection',
    'Proxy-Authorization',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Expect',
    'HTTP2-Settings',
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'X-Forwarded-Proto',
    'X-Forwarded-Port',
    'X-Forwarded-Prefix',
    'Forwarded',
    'X-Real-IP',
    'X-Sluice-Over',
    'X-HTTP-Method-Override',
    'X-HTTP-Method',
    'X-Method-Override',
    'X-Original-URI',
    'X-Original-Method',
    'X-Forwarded-Uri',
    'X-Forwarded-Method',
    'X-Forwarded-Path',
    'X-Envoy-Original-Path',
    'X-Original-Forwarded-For',
    'Fly-Client-IP',
    'X-Azure-ClientIP',
    'X-Envoy-External-Address',
    'X-Remote-Addr',
    'Forwarded-For',
    'X-Forwarded-Ssl',
    'Front-End-Https',
    'X-Url-Scheme',
    'X-Forwarded-Protocol',
    'X_Original_URI',
    'fly.client_ip',
    'X-Auth-User',
    'X_Forwarded_For',
    'X.Forwarded.For',
    'x_auth_user',
    'X_Api_Key',
    'x_sluice.over',
    'X_Http_Method_Override',
  ])('no %s that an untrusted client wrote', (name) => {
    expect(passed([[name, 'evil']])).toEqual(OWN)
  })

  test('other headers with underscores', () => {
    expect(passed([['my_header', '1']])).toContainEqual(['my_header', '1'])
  })

  test('no header that the client lists in Connection, but all that the gateway writes', () => {
    const pairs = [
      ['Connection', 'close, x-forwarded-for, X-Forwarded-Host, x-forwarded-proto, X-Mine, host'],
      ['X-Mine', '1'],
      ['X-Other', '2'],
      ['Content-Length', '3'],
    ] as const
    expect(passed(pairs)).toEqual([OWN[0], pairs[2], pairs[3], ...OWN.slice(1)])
  })

  test('the length of the body, whatever Connection lists', () => {
    expect(
      passed([
        ['Connection', 'content-length'],
        ['Content-Length', '3'],
      ]),
    ).toContainEqual(['Content-Length', '3'])
  })

  test('the host, protocol and user from a trusted proxy, and the trusted chain', () => {
    const pairs = [
      ['X-Forwarded-Host', 'shop.example'],
      ['X-Forwarded-Proto', 'https'],
      ['X-Forwarded-For', '6.6.6.6, 203.0.113.7'],
      ['X-Auth-User', 'ann'],
    ] as const
    expect(passed(pairs, { trusted: true, forwardedFor: '203.0.113.7, 10.0.0.1' })).toEqual([
      OWN[0],
      pairs[0],
      pairs[1],
      pairs[3],
      ['x-forwarded-for', '203.0.113.7, 10.0.0.1'],
    ])
  })

  test.each([
    'X-Original-URI',
    'X-Original-Method',
    'X-Forwarded-Uri',
    'X-Forwarded-Method',
    'X-Forwarded-Path',
    'X-Envoy-Original-Path',
    'X-Original-URL',
    'X_Forwarded_Uri',
  ])('no %s, not even from a trusted proxy, so that the counted path is the served one', (name) => {
    expect(passed([[name, '/admin']], { trusted: true })).toEqual(OWN)
  })

  test.each([
    'X-Original-Forwarded-For',
    'Fly-Client-IP',
    'X-Azure-ClientIP',
    'X-Envoy-External-Address',
    'X-Remote-Addr',
    'Forwarded-For',
    'X-Forwarded-Ssl',
    'Front-End-Https',
    'X-Url-Scheme',
    'X-Forwarded-Protocol',
  ])('%s from a trusted proxy unchanged, even if Connection lists it', (name) => {
    const pairs = [
      [name, 'given'],
      ['Connection', name],
    ] as const
    expect(passed(pairs, { trusted: true })).toContainEqual([name, 'given'])
  })

  test('the statement that the client accepts trailers', () => {
    expect(passed([['TE', 'gzip, trailers']])).toContainEqual(['te', 'trailers'])
  })

  test('the names of tagged shadow rules that would have refused', () => {
    expect(passed([['X-Sluice-Over', 'mine']], { tags: ['a', 'b'] })).toContainEqual([
      'x-sluice-over',
      'a, b',
    ])
  })
})
