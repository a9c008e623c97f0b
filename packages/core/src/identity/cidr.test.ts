import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { describe, expect, test } from 'vitest'
import identities from '../../../../conformance/identities.json' with { type: 'json' }
import { type Address, formatAddress, parseAddress } from './address.js'
import { type Cidr, cidrContains, parseCidr, parseTrustedProxies } from './cidr.js'

interface Row {
  readonly input: { readonly trustedProxies: readonly string[] }
  readonly expected: { readonly cidrs: readonly string[]; readonly problems: readonly string[] }
  readonly comment: string
}

const rows = identities.filter((row) => 'trustedProxies' in row.input) as readonly Row[]

function network(text: string): Cidr {
  const cidr = parseCidr(text)
  if ('problem' in cidr) throw new Error(cidr.problem)
  return cidr
}

const word = fc.nat(0xffffffff)
const addresses: fc.Arbitrary<Address> = fc.oneof(
  word.map((d) => ({ version: 4, a: 0, b: 0, c: 0, d }) as const),
  // ::/3 is excluded because it contains the IPv4-mapped addresses.
  fc
    .tuple(fc.integer({ min: 0x20000000, max: 0xffffffff }), word, word, word)
    .map(([a, b, c, d]) => ({ version: 6, a, b, c, d }) as const),
)

/** Flips one bit of an address, counted from the left. */
function flip(address: Address, bit: number): Address {
  const words = [address.a, address.b, address.c, address.d]
  const at = address.version === 4 ? bit + 96 : bit
  const [a = 0, b = 0, c = 0, d = 0] = words.map((bits, index) =>
    index === at >> 5 ? (bits ^ (1 << (31 - (at & 31)))) >>> 0 : bits,
  )
  return { version: address.version, a, b, c, d }
}

/** The network of an address, as ipaddr.js masks it. */
function networkText(address: Address, bits: number): string {
  const text = `${formatAddress(address)}/${bits}`
  const masked =
    address.version === 4
      ? ipaddr.IPv4.networkAddressFromCIDR(text)
      : ipaddr.IPv6.networkAddressFromCIDR(text)
  return `${masked.toString()}/${bits}`
}

describe('the table of trusted proxies', () => {
  test.each(rows)('$comment: $input.trustedProxies', ({ input, expected }) => {
    const { cidrs, problems } = parseTrustedProxies(input.trustedProxies)
    expect(cidrs.map(({ text }) => text)).toEqual(expected.cidrs)
    expect(problems).toEqual(expected.problems.map((part) => expect.stringContaining(part)))
    for (const problem of problems) expect(problem).toMatch(/^found .*; accepted: /)
  })
})

describe('a network', () => {
  test('contains the same addresses as in ipaddr.js', () => {
    fc.assert(
      fc.property(addresses, addresses, fc.nat(128), fc.nat(127), (base, other, length, near) => {
        const size = base.version === 4 ? 32 : 128
        const bits = length % (size + 1)
        const cidr = network(networkText(base, bits))
        for (const address of [base, other, flip(base, near % size)]) {
          const parsed = ipaddr.parse(formatAddress(address))
          const isSameKind = parsed.kind() === (base.version === 4 ? 'ipv4' : 'ipv6')
          const expected = isSameKind && parsed.match(ipaddr.parseCIDR(cidr.text))
          expect(cidrContains(cidr, address)).toBe(expected)
        }
      }),
      { numRuns: 2000 },
    )
  })

  test('is refused with host bits set, and suggested without them', () => {
    fc.assert(
      fc.property(addresses, fc.nat(127), (address, length) => {
        const bits = length % (address.version === 4 ? 32 : 128)
        const text = `${formatAddress(address)}/${bits}`
        const meant = networkText(address, bits)
        const problem = expect.stringContaining(`the network ${network(meant).text}, or`)
        const parsed = parseCidr(text)
        expect('problem' in parsed ? parsed : parsed.text).toEqual(
          network(meant).text === text ? text : { problem },
        )
      }),
      { numRuns: 1000 },
    )
  })

  test('of a whole address family contains no address of the other', () => {
    const [one, two] = [parseAddress('1.2.3.4'), parseAddress('2001:db8::1')]
    if (one === undefined || two === undefined) throw new Error('these are addresses')
    expect(cidrContains(network('0.0.0.0/0'), one)).toBe(true)
    expect(cidrContains(network('0.0.0.0/0'), two)).toBe(false)
    expect(cidrContains(network('::/0'), one)).toBe(false)
    expect(cidrContains(network('::/0'), two)).toBe(true)
  })

  test('problem truncates and escapes a long text', () => {
    const parsed = parseCidr(`\n${'x'.repeat(10_000)}`)
    const problem = 'problem' in parsed ? parsed.problem : ''
    expect(problem.length).toBeLessThan(200)
    expect(problem).toContain('\\u000axxx')
  })
})

test.each(['fd00::/8', 'fc00::/7', 'fe80::/10', '10.0.0.0/8', '2001:db8::/32'])(
  '%s is accepted as a network of proxies',
  (text) => {
    expect(parseTrustedProxies([text]).problems).toEqual([])
  },
)

test.each(['fe00::/8', 'f000::/4', 'fe80::/9', '8.0.0.0/7', '2000::/15'])(
  '%s is too wide for a network of proxies',
  (text) => {
    expect(parseTrustedProxies([text]).problems).toHaveLength(1)
  },
)
