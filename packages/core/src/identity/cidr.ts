/** Networks, such as those of trusted proxies: an address and how many of its bits count. */
import { show } from '../errors.js'
import { type Address, formatAddress, maskWord, parseAddress, readPrefixLength } from './address.js'

export interface Cidr {
  readonly version: 4 | 6
  /** The words of the network, laid out as in an Address, with the host bits cleared. */
  readonly a: number
  readonly b: number
  readonly c: number
  readonly d: number
  readonly bits: number
  /** The canonical text: `10.0.0.0/8`, `2001:db8::/32`. */
  readonly text: string
}

const ACCEPTED = 'an address or a network such as 10.0.0.0/8 or 2001:db8::/32'
/** The words that other programs read as "trust all proxies". */
const PERMISSIVE_WORDS: readonly string[] = ['*', 'true', 'all', 'any', 'yes', 'on']

/**
 * A wider network contains callers as well, and two halves of the address space trust all of them.
 */
const PROXY_BITS_MIN = { 4: 8, 6: 16 } as const

/** Parses a network; a single address is a network of one. */
export function parseCidr(text: string): Cidr | { readonly problem: string } {
  const slash = text.indexOf('/')
  const host = slash === -1 ? text : text.slice(0, slash)
  const address = host.includes('%') ? undefined : parseAddress(host)
  if (address === undefined) return { problem: `found "${show(text)}"; accepted: ${ACCEPTED}` }

  const bits = slash === -1 ? undefined : readPrefixLength(text, slash + 1)
  if (address.version === 4 && host.includes(':')) {
    return { problem: describeMapped(text, address, bits) }
  }
  const widest = address.version === 4 ? 32 : 128
  if (bits === -1 || (bits !== undefined && bits > widest)) {
    const accepted = `a whole number from 0 to ${widest} after the slash`
    return { problem: `found "${show(text)}"; accepted: ${accepted}, as in ${host}/${widest}` }
  }
  const cidr = networkOf(address, bits ?? widest)
  const written = formatAddress(address)
  if (formatAddress(cidr) === written) return cidr
  // Either the address or its length is wrong, and only the author knows which.
  const accepted = `the network ${cidr.text}, or ${written}/${widest} for the address alone`
  return {
    problem: `found "${show(text)}", with bits set beyond its length; accepted: ${accepted}`,
  }
}

export function cidrContains(cidr: Cidr, address: Address): boolean {
  const { bits } = cidr
  if (cidr.version !== address.version) return false
  if (cidr.version === 4) return maskWord(address.d, bits) === cidr.d
  return (
    maskWord(address.a, bits) === cidr.a &&
    maskWord(address.b, bits - 32) === cidr.b &&
    maskWord(address.c, bits - 64) === cidr.c &&
    maskWord(address.d, bits - 96) === cidr.d
  )
}

/** Whether every address of `inner` is in `outer`. */
export function cidrCovers(outer: Cidr, inner: Cidr): boolean {
  return outer.bits <= inner.bits && cidrContains(outer, inner)
}

/** Returns the canonical text of the network of `bits` bits that contains an address. */
export function networkText(address: Address, bits: number): string {
  return `${formatAddress(maskAddress(address, bits))}/${bits}`
}

/**
 * Returns a hash of the network of `bits` bits, up to 64 for IPv6, that contains an address. Two
 * networks may share a hash: it serves to rule out most addresses quickly.
 */
export function networkCode({ version, a, b, d }: Address, bits: number): number {
  const network =
    version === 4
      ? maskWord(d, bits)
      : maskWord(a, bits) ^ Math.imul(maskWord(b, bits - 32), 0x85ebca6b)
  // Every bit of the result depends on every bit of the network, because filters use the lowest.
  let code = network ^ Math.imul(8 * bits + version, 0x9e3779b1)
  code = Math.imul(code ^ (code >>> 16), 0x85ebca6b)
  code = Math.imul(code ^ (code >>> 13), 0xc2b2ae35)
  return code ^ (code >>> 16)
}

/** Whether a network is a single address. */
export function isOneAddress({ version, bits }: Cidr): boolean {
  return bits === (version === 4 ? 32 : 128)
}

/**
 * Parses the networks of proxies whose forwarding headers are trusted. Reports all problems at
 * once.
 *
 * A value that trusts every peer is refused, and so is a network too wide to contain only proxies:
 * any caller in it could claim any address.
 */
export function parseTrustedProxies(texts: readonly string[]): {
  readonly cidrs: readonly Cidr[]
  readonly problems: readonly string[]
} {
  const cidrs: Cidr[] = []
  const problems: string[] = []
  for (const text of texts) {
    const cidr = PERMISSIVE_WORDS.includes(text.toLowerCase()) ? undefined : parseCidr(text)
    if (cidr === undefined || ('bits' in cidr && cidr.bits === 0)) {
      problems.push(
        `found "${show(text)}", which trusts everybody: callers could name any address; ` +
          'accepted: the networks of your own proxies, such as 10.0.0.0/8',
      )
    } else if ('problem' in cidr) problems.push(cidr.problem)
    else if (cidr.bits < PROXY_BITS_MIN[cidr.version] && !isLocal(cidr)) {
      problems.push(
        `found "${show(text)}", too wide to be proxies: callers are in it; ` +
          'accepted: the networks of your own proxies, ' +
          `at least /${PROXY_BITS_MIN[4]} for IPv4 and /${PROXY_BITS_MIN[6]} for IPv6`,
      )
    } else cidrs.push(cidr)
  }
  return { cidrs, problems }
}

/**
 * Whether a network is within `fc00::/7` or `fe80::/10`: wide, but not reachable from the internet.
 */
function isLocal({ version, a, bits }: Cidr): boolean {
  if (version !== 6) return false
  const isUnique = bits >= 7 && maskWord(a, 7) === maskWord(0xfc00_0000 | 0, 7)
  return isUnique || (bits >= 10 && maskWord(a, 10) === maskWord(0xfe80_0000 | 0, 10))
}

/**
 * One parser reads `::ffff:10.0.0.0/8` as nearly all of IPv6, another as 10.0.0.0/8. Addresses
 * become IPv4 before they are compared, so the network must be written as IPv4 too.
 */
function describeMapped(text: string, address: Address, bits: number | undefined): string {
  const meant = networkOf(address, mappedBits(bits ?? 128))
  return `found "${show(text)}", which is IPv4 written as IPv6; accepted: ${meant.text}`
}

/** Returns the length most likely meant: in IPv6 bits, else in IPv4 bits, else one address. */
function mappedBits(bits: number): number {
  if (bits >= 96) return bits - 96
  return bits >= 0 && bits <= 32 ? bits : 32
}

function networkOf(address: Address, bits: number): Cidr {
  return { ...maskAddress(address, bits), bits, text: networkText(address, bits) }
}

/** Clears the host bits of an address. */
function maskAddress({ version, a, b, c, d }: Address, bits: number): Address {
  if (version === 4) return { version, a: 0, b: 0, c: 0, d: maskWord(d, bits) }
  return {
    version,
    a: maskWord(a, bits),
    b: maskWord(b, bits - 32),
    c: maskWord(c, bits - 64),
    d: maskWord(d, bits - 96),
  }
}
