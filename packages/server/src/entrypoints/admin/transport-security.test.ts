import type { IncomingMessage } from 'node:http'
import { parseTrustedProxies } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { isLoopbackHostname, isClientTls } from './transport-security.js'

const { cidrs: trustedProxies } = parseTrustedProxies(['10.0.0.0/8'])

function isTls(
  headers: Readonly<Record<string, string>>,
  more: { readonly peer?: string; readonly forwarded?: boolean; readonly tls?: boolean } = {},
): boolean {
  const { peer = '10.0.0.1', forwarded = false, tls = false } = more
  const forwardedHeader = forwarded ? 'forwarded' : 'x-forwarded-for'
  const socket = { remoteAddress: peer, ...(tls && { encrypted: true }) }
  const request = { socket, headers } as unknown as IncomingMessage
  return isClientTls({ trustedProxies, forwardedHeader }, request)
}

describe('whether a request was encrypted', () => {
  test('is known from the connection itself', () => {
    expect(isTls({}, { tls: true, peer: '192.0.2.1' })).toBe(true)
    expect(isTls({})).toBe(false)
  })

  test('is reported by a trusted proxy, and by no other peer', () => {
    expect(isTls({ 'x-forwarded-proto': 'https' })).toBe(true)
    expect(isTls({ 'x-forwarded-proto': 'https, HTTPS' })).toBe(true)
    expect(isTls({ 'x-forwarded-proto': 'https, http' })).toBe(false)
    expect(isTls({ 'x-forwarded-proto': 'https' }, { peer: '192.0.2.1' })).toBe(false)
    expect(isTls({ 'x-forwarded-proto': 'https' }, { peer: '' })).toBe(false)
  })

  test('is read only from the header that the proxies write', () => {
    const headers = { forwarded: 'for=192.0.2.1;proto=https;host=a' }
    expect(isTls(headers, { forwarded: true })).toBe(true)
    expect(isTls(headers)).toBe(false)
    expect(isTls({ 'x-forwarded-proto': 'https' }, { forwarded: true })).toBe(false)
    const chain = { forwarded: 'proto=https, for=10.0.0.2;proto=http' }
    expect(isTls(chain, { forwarded: true })).toBe(false)
  })
})

test.each(['localhost', 'a.localhost', '127.0.0.1', '127.8.9.10', '[::1]'])(
  '%s is this machine',
  (name) => expect(isLoopbackHostname(name)).toBe(true),
)

test.each(['localhost.example', '127.0.0.1.example', 'sluice', '10.0.0.1', '[::2]', ''])(
  '%s is another machine',
  (name) => expect(isLoopbackHostname(name)).toBe(false),
)
