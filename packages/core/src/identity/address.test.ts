import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { describe, expect, test } from 'vitest'
import identities from '../../../../conformance/identities.json' with { type: 'json' }
import {
  type Address,
  canonicalIp,
  formatAddress,
  groupAddress,
  IPV6_PREFIX_DEFAULT,
  IPV6_PREFIX_MAX,
  IPV6_PREFIX_MIN,
  parseAddress,
} from './address.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

interface Row {
  readonly input: { readonly address: string; readonly ipv6Prefix: number }
  readonly expected: { readonly address: string | null; readonly group: string | null }
  readonly comment: string
}

const rows = identities.filter((row) => 'address' in row.input) as readonly Row[]

const word = fc.oneof(fc.constantFrom(0, 1, 0xffff, 0x10000, 0xffffffff), fc.nat(0xffffffff))
const v4 = word.map((d): Address => ({ version: 4, a: 0, b: 0, c: 0, d }))
const v6 = fc
  .tuple(word, word, word, word)
  .filter(([a, b, c]) => a !== 0 || b !== 0 || c !== 0xffff)
  .map(([a, b, c, d]): Address => ({ version: 6, a, b, c, d }))
const addresses = fc.oneof(v4, v6)
const prefixes = fc.integer({ min: IPV6_PREFIX_MIN, max: IPV6_PREFIX_MAX })

const groupsOf = ({ a, b, c, d }: Address): number[] =>
  [a, b, c, d].flatMap((bits) => [bits >>> 16, bits & 0xffff])

/** One of the many ways to write an IPv6 address. */
const spellings = fc
  .record({
    groups: fc.array(fc.oneof(fc.constant(0), fc.nat(0xffff)), { minLength: 8, maxLength: 8 }),
    padded: fc.boolean(),
    upper: fc.boolean(),
    dotted: fc.boolean(),
    gap: fc.nat(8),
    gapSize: fc.integer({ min: 1, max: 8 }),
    zone: fc.constantFrom('', '%1', '%eth0'),
  })
  .map(({ groups, padded, upper, dotted, gap, gapSize, zone }) => {
    const words = groups.map((group) => group.toString(16).padStart(padded ? 4 : 1, '0'))
    const [g6 = 0, g7 = 0] = groups.slice(6)
    if (dotted) words.splice(6, 2, `${g6 >> 8}.${g6 & 255}.${g7 >> 8}.${g7 & 255}`)
    const size = Math.min(gapSize, (dotted ? 6 : 8) - gap)
    const isZero = size > 0 && groups.slice(gap, gap + size).every((group) => group === 0)
    const text = isZero
      ? `${words.slice(0, gap).join(':')}::${words.slice(gap + size).join(':')}`
      : words.join(':')
    return (upper ? text.toUpperCase() : text) + zone
  })

/**
 * Converts the result of ipaddr.js to an Address. It accepts more IPv4 forms (octal, hexadecimal,
 * fewer parts), hence the four-part test. The result is undefined where it cannot be compared: for
 * the deprecated `::1.2.3.4`, which it reads as IPv4-mapped against RFC 4291, and for zones with
 * punctuation, which it does not support.
 */
function oracle(text: string): Address | 'refused' | undefined {
  if (/^::\d+\.\d+\.\d+\.\d+(%.*)?$/.test(text) || /%.*[-._~]/.test(text)) return undefined
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return fromBytes(ipaddr.IPv4.parse(text))
  if (!ipaddr.IPv6.isValid(text)) return 'refused'
  const parsed = ipaddr.IPv6.parse(text)
  return fromBytes(parsed.isIPv4MappedAddress() ? parsed.toIPv4Address() : parsed)
}

function fromBytes(parsed: ipaddr.IPv4 | ipaddr.IPv6): Address {
  const bytes = parsed.toByteArray()
  const words = new DataView(
    Uint8Array.from([...Array(16 - bytes.length).fill(0), ...bytes]).buffer,
  )
  const [a, b, c, d] = [0, 4, 8, 12].map((at) => words.getUint32(at))
  return { version: bytes.length === 4 ? 4 : 6, a: a ?? 0, b: b ?? 0, c: c ?? 0, d: d ?? 0 }
}

describe('the table of identities', () => {
  test.each(rows)('$comment: $input.address', ({ input, expected }) => {
    const address = parseAddress(input.address)
    expect(address === undefined ? null : formatAddress(address)).toBe(expected.address)
    expect(canonicalIp(input.address, input.ipv6Prefix) ?? null).toBe(expected.group)
  })
})

describe('parsing', () => {
  test('agrees with ipaddr.js on every spelling of an address', () => {
    fc.assert(
      fc.property(fc.oneof(spellings, v4.map(formatAddress)), (text) => {
        const expected = oracle(text)
        fc.pre(expected !== undefined)
        expect(parseAddress(text)).toEqual(expected)
      }),
      { numRuns: propertyRuns(3000) },
    )
  })

  test('accepts no mutation that ipaddr.js refuses, and reads the same bits', () => {
    const characters = fc.constantFrom(
      ...'0123456789abcdefABFx:.%/[] \t\n\u0000-+g\uff11'.split(''),
    )
    const mutations = fc.array(fc.tuple(fc.nat(48), fc.nat(2), characters), { maxLength: 3 })
    const texts = fc.oneof(spellings, v4.map(formatAddress))
    let accepted = 0
    fc.assert(
      fc.property(texts, mutations, (text, edits) => {
        const mutated = edits.reduce(
          (current, [at, cut, add]) => current.slice(0, at) + add + current.slice(at + cut),
          text,
        )
        const address = parseAddress(mutated)
        const expected = oracle(mutated)
        if (address === undefined || expected === undefined) return
        accepted += 1
        expect(address).toEqual(expected)
      }),
      { numRuns: propertyRuns(4000) },
    )
    expect(accepted).toBeGreaterThan(propertyRuns(500))
  })

  test('never throws, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
        const address = parseAddress(text)
        if (address !== undefined) expect(parseAddress(formatAddress(address))).toEqual(address)
      }),
      { numRuns: propertyRuns(2000) },
    )
  })

  test('refuses a megabyte of digits', () => {
    expect(parseAddress('1'.repeat(1_000_000))).toBeUndefined()
    expect(parseAddress(`::${'f'.repeat(1_000_000)}`)).toBeUndefined()
  })
})

describe('formatting', () => {
  test('is undone by parsing', () => {
    fc.assert(
      fc.property(addresses, (address) => {
        expect(parseAddress(formatAddress(address))).toEqual(address)
      }),
      { numRuns: propertyRuns(2000) },
    )
  })

  test('follows RFC 5952, like ipaddr.js', () => {
    fc.assert(
      fc.property(addresses, (address) => {
        const text = formatAddress(address)
        const oracleText =
          address.version === 4
            ? ipaddr.parse(text).toString()
            : new ipaddr.IPv6(groupsOf(address)).toRFC5952String()
        expect(text).toBe(oracleText)
      }),
      { numRuns: propertyRuns(2000) },
    )
  })
})

describe('grouping', () => {
  test('makes all addresses of one /64 one caller', () => {
    fc.assert(
      fc.property(v6, word, word, (address, c, d) => {
        fc.pre(address.a !== 0)
        expect(groupAddress({ ...address, c, d }, IPV6_PREFIX_DEFAULT)).toBe(
          groupAddress(address, IPV6_PREFIX_DEFAULT),
        )
      }),
      { numRuns: propertyRuns(2000) },
    )
    const groups = new Set<string | undefined>()
    for (let host = 0; host < 10_000; host++) {
      const low = [Math.imul(host, 40_503) & 0xffff, host].map((group) => group.toString(16))
      groups.add(canonicalIp(`2001:db8:1:2:${low.join(':')}::`, 64))
    }
    expect([...groups]).toEqual(['2001:db8:1:2::/64'])
  })

  test('makes two addresses one caller exactly if their first bits agree', () => {
    fc.assert(
      fc.property(v6, prefixes, fc.integer({ min: 32, max: 63 }), (address, prefix, bit) => {
        fc.pre(address.a !== 0)
        const other = { ...address, b: (address.b ^ (1 << (63 - bit))) >>> 0 }
        expect(groupAddress(other, prefix) === groupAddress(address, prefix)).toBe(bit >= prefix)
      }),
      { numRuns: propertyRuns(2000) },
    )
  })

  test('is idempotent', () => {
    fc.assert(
      fc.property(addresses, prefixes, prefixes, (address, one, two) => {
        const group = groupAddress(address, Math.min(one, two))
        expect(canonicalIp(group, Math.max(one, two))).toBe(group)
      }),
      { numRuns: propertyRuns(2000) },
    )
  })

  test.each([31, 65, 128, 0, -1, 56.5, Number.NaN])('by a prefix of %d is refused', (prefix) => {
    const accepted = `found ${prefix}; accepted: a whole number from 32 to 64`
    expect(() => canonicalIp('1.2.3.4', prefix)).toThrow(accepted)
    expect(() => canonicalIp('::1', prefix)).toThrow(accepted)
  })
})
