import { parseTrustedProxies } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import identities from '../../../../../conformance/identities.json' with { type: 'json' }
import { findClientOrigin } from './client-origin.js'

interface AddressRow {
  readonly input: { readonly address: string }
  readonly expected: { readonly address: string | null }
  readonly comment: string
}

interface ClientRow {
  readonly input: {
    readonly peer: string
    readonly trusted: readonly string[]
    readonly forwardedFor?: readonly string[] | undefined
    readonly forwarded?: readonly string[] | undefined
  }
  readonly expected: { readonly client: string; readonly ignored: boolean } | null
  readonly comment: string
}

const addresses = identities.filter((row) => 'address' in row.input) as readonly AddressRow[]
const clients = (identities.filter((row) => 'peer' in row.input) as readonly ClientRow[]).filter(
  // Only one header is configured; the table has rows with both.
  ({ input }) => input.forwardedFor === undefined || input.forwarded === undefined,
)

function find(input: ClientRow['input']) {
  const isForwarded = input.forwarded !== undefined
  const options = {
    trustedProxies: parseTrustedProxies(input.trusted).cidrs,
    forwardedHeader: isForwarded ? 'forwarded' : 'x-forwarded-for',
  } as const
  return findClientOrigin(options, input.peer, input.forwarded ?? input.forwardedFor ?? [])
}

describe('the table of identities', () => {
  test.each(addresses)('$comment: a peer $input.address', ({ input, expected }) => {
    expect(find({ peer: input.address, trusted: [] })?.ip ?? null).toBe(expected.address)
  })

  test.each(clients)('$comment: $input.peer $input.forwardedFor $input.forwarded', (row) => {
    const origin = find(row.input)
    expect(origin?.ip ?? null).toBe(row.expected?.client ?? null)
    expect(origin?.ignored ?? null).toBe(row.expected?.ignored ?? null)
    expect(origin?.forwardedFor.startsWith(origin.ip) ?? true).toBe(true)
    expect(origin?.forwardedFor.endsWith(origin.peer) ?? true).toBe(true)
  })
})

describe('the X-Forwarded-For that is passed on', () => {
  const trusted = ['10.0.0.0/8', '2001:db8::/32']

  test('lists the client, the trusted hops and the peer, each in canonical form', () => {
    const forwardedFor = ['6.6.6.6, 203.0.113.1:5000', '10.0.0.1,\t[2001:DB8:0::5]:443']
    expect(find({ peer: '::ffff:10.0.0.9', trusted, forwardedFor })?.forwardedFor).toBe(
      '203.0.113.1, 10.0.0.1, 2001:db8::5, 10.0.0.9',
    )
  })

  test('is the same from Forwarded, including quoted commas', () => {
    const forwarded = [
      'for=6.6.6.6, for=203.0.113.1;by="a,\\"b"',
      'proto=https;for="10.0.0.1:80", For="[2001:db8::5]";host="x,y"',
    ]
    expect(find({ peer: '10.0.0.9', trusted, forwarded })?.forwardedFor).toBe(
      '203.0.113.1, 10.0.0.1, 2001:db8::5, 10.0.0.9',
    )
  })

  test('omits untrusted entries', () => {
    const beyond = ['6.6.6.6, unknown, 10.0.0.1']
    expect(find({ peer: '10.0.0.9', trusted, forwardedFor: beyond })).toMatchObject({
      ip: '10.0.0.1',
      forwardedFor: '10.0.0.1, 10.0.0.9',
      ignored: true,
    })
    expect(find({ peer: '10.0.0.9', trusted, forwardedFor: ['unknown'] })).toMatchObject({
      ip: '10.0.0.9',
      forwardedFor: '10.0.0.9',
      ignored: true,
    })
    expect(find({ peer: '6.6.6.6', trusted, forwardedFor: ['1.2.3.4'] })?.forwardedFor).toBe(
      '6.6.6.6',
    )
  })

  test('is built from the last 64 of ten thousand entries', () => {
    const forwardedFor = Array.from({ length: 10_000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`)
    const origin = find({ peer: '10.0.0.9', trusted, forwardedFor: [forwardedFor.join(',')] })
    expect(origin?.forwardedFor.split(', ')).toHaveLength(65)
    expect(origin?.ip).toBe(forwardedFor.at(-64))
  })
})
