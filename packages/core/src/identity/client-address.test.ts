import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import identities from '../../../../conformance/identities.json' with { type: 'json' }
import { canonicalIp, formatAddress, groupAddress } from './address.js'
import { parseTrustedProxies } from './cidr.js'
import { clientAddress } from './client-address.js'

interface Row {
  readonly input: {
    readonly peer: string
    readonly trusted: readonly string[]
    readonly forwardedFor?: readonly string[] | undefined
    readonly forwarded?: readonly string[] | undefined
  }
  readonly expected: {
    readonly client: string
    readonly hops: number
    readonly from: string
    readonly ignored: boolean
  } | null
  readonly comment: string
}

const rows = identities.filter((row) => 'peer' in row.input) as readonly Row[]

/** Converts the result to the form of the table. */
function find(input: Row['input']): Row['expected'] {
  const { cidrs, problems } = parseTrustedProxies(input.trusted)
  expect(problems).toEqual([])
  const found = clientAddress({ ...input, trusted: cidrs })
  if (found === undefined) return null
  const { address, hops, from, ignored } = found
  return { client: formatAddress(address), hops, from, ignored }
}

const v4In = (prefix: string) => fc.nat(255).map((low) => `${prefix}.${low}`)
const proxies = v4In('192.0.2')
const clients = v4In('198.51.100')
const trusted = ['192.0.2.0/24']
const junk = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.string(),
  fc.constantFrom('unknown', '', '192.0.2.1'),
)

describe('the table of identities', () => {
  test.each(rows)('$comment: $input.peer $input.forwardedFor $input.forwarded', (row) => {
    expect(find(row.input)).toEqual(row.expected)
  })
})

describe('the client', () => {
  test('of an untrusted peer is one address, whatever 10,000 headers contain', () => {
    const { cidrs } = parseTrustedProxies(['192.0.2.0/24', '2001:db8::/32'])
    const groups = new Set<string>()
    for (let i = 0; i < 10_000; i++) {
      const spoofed = `10.${i & 255}.${i >> 8}.1`
      const forwardedFor = [`${spoofed}, 192.0.2.${i & 255}`]
      const forwarded = [`for=${spoofed}`, 'for=192.0.2.1']
      const headers = [{ forwardedFor }, { forwarded }, { forwardedFor, forwarded }][i % 3]
      const found = clientAddress({ peer: '203.0.113.9', trusted: cidrs, ...headers })
      expect(found?.ignored).toBe(true)
      if (found !== undefined) groups.add(groupAddress(found.address, 64))
    }
    expect([...groups]).toEqual(['203.0.113.9'])
  })

  test('behind trusted proxies is the address the first of them saw, whatever headers the client sent', () => {
    fc.assert(
      fc.property(
        fc.array(junk),
        clients,
        fc.array(proxies, { minLength: 1, maxLength: 5 }),
        (sent, client, chain) => {
          const peer = chain.at(-1) ?? ''
          const list = [...sent, client, ...chain.slice(0, -1)]
          expect(find({ peer, trusted, forwardedFor: [list.join(', ')] })).toEqual({
            client,
            hops: chain.length,
            from: 'x-forwarded-for',
            ignored: false,
          })
        },
      ),
      { numRuns: 1000 },
    )
  })

  test('is the last valid address if a trusted proxy wrote none', () => {
    fc.assert(
      fc.property(fc.array(junk), fc.array(proxies, { minLength: 1 }), (sent, chain) => {
        const list = [...sent, 'unknown', ...chain.slice(0, -1)]
        const found = find({ peer: chain.at(-1) ?? '', trusted, forwardedFor: list })
        expect(found).toMatchObject({ client: chain[0], hops: chain.length - 1, ignored: true })
      }),
      { numRuns: 500 },
    )
  })

  test('is found behind a proxy whose address is written in IPv4-mapped form', () => {
    fc.assert(
      fc.property(proxies, clients, (proxy, client) => {
        const found = find({ peer: `::ffff:${proxy}`, trusted, forwardedFor: [`::ffff:${client}`] })
        expect(found?.client).toBe(canonicalIp(client, 64))
      }),
      { numRuns: 200 },
    )
  })

  test('is the peer if the list of header lines is empty', () => {
    const expected = { client: '192.0.2.5', hops: 0, from: 'peer', ignored: false }
    expect(find({ peer: '192.0.2.5', trusted, forwardedFor: [], forwarded: [] })).toEqual(expected)
  })

  test('of a chain longer than 64 trusted entries is the last entry read', () => {
    const forwardedFor = Array.from({ length: 100 }, (_, i) => `192.0.2.${i}`)
    expect(find({ peer: '192.0.2.200', trusted, forwardedFor })).toMatchObject({
      client: '192.0.2.36',
      hops: 64,
    })
  })
})
