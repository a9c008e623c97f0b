/**
 * IP addresses as bits. Callers are identified by the bits of their address, never by its text: an
 * address has dozens of spellings, and each would otherwise get its own budget.
 *
 * Parsing is strict: text that two parsers could read differently (`010.0.0.1`, `1.2.3`, white
 * space) is not an address. The loops are hand-written because they run on every call.
 */

/** Four unsigned 32-bit words, highest first. IPv4 has its address in `d` and zeros before it. */
export interface Address {
  readonly version: 4 | 6
  readonly a: number
  readonly b: number
  readonly c: number
  readonly d: number
}

/** A /64 is the smallest network of one IPv6 subscriber: a longer prefix gives it many counters. */
export const IPV6_PREFIX_DEFAULT = 64
/** A shorter prefix would put a whole provider into one counter. */
export const IPV6_PREFIX_MIN = 32
export const IPV6_PREFIX_MAX = 64

const DOT = 46
const COLON = 58
const GROUPS = 8

/**
 * Parses an address; undefined if the text is not exactly one (no brackets, port or white space).
 *
 * A zone (`fe80::1%eth0`) is dropped: it names a link of this host, and a caller could invent any.
 * IPv4-mapped IPv6 (`::ffff:0:0/96`) is IPv4 by its bits, whatever its notation. All else that
 * embeds IPv4 (`2001:db8::1.2.3.4`, `::1.2.3.4`) is ordinary IPv6.
 */
export function parseAddress(text: string): Address | undefined {
  const v4 = readV4(text, 0, text.length)
  return v4 === -1 ? parseV6(text) : { version: 4, a: 0, b: 0, c: 0, d: v4 }
}

/** RFC 5952: lower case, no leading zeros, the longest run of zero groups as `::`. */
export function formatAddress({ version, a, b, c, d }: Address): string {
  return version === 4 ? formatV4(d) : formatV6(a, b, c, d)
}

/** Returns the caller of an address: IPv4 as itself, IPv6 as its network of `ipv6Prefix` bits. */
export function groupAddress(address: Address, ipv6Prefix: number): string {
  requireGroupPrefix(ipv6Prefix)
  if (address.version === 4) return formatV4(address.d)
  return `${formatV6(address.a, maskWord(address.b, ipv6Prefix - 32), 0, 0)}/${ipv6Prefix}`
}

/**
 * Returns the caller of an `ip`, or undefined if the text is not an address.
 *
 * Text that is already grouped, by this prefix or a shorter one, stays unchanged: an address that
 * was grouped upstream must keep its counter and stay valid.
 */
export function canonicalIp(text: string, ipv6Prefix: number): string | undefined {
  requireGroupPrefix(ipv6Prefix)
  // Strict dotted decimal has one spelling, so the text itself is the canonical form.
  if (readV4(text, 0, text.length) !== -1) return text
  const slash = text.indexOf('/')
  if (slash === -1) {
    const address = parseV6(text)
    return address === undefined ? undefined : groupAddress(address, ipv6Prefix)
  }
  const prefix = readPrefixLength(text, slash + 1)
  const address = parseV6(text.slice(0, slash))
  if (address?.version !== 6 || !isGroupPrefix(prefix, ipv6Prefix)) return undefined
  const isNetwork =
    address.c === 0 && address.d === 0 && maskWord(address.b, prefix - 32) === address.b
  return isNetwork ? groupAddress(address, prefix) : undefined
}

/** The first `bits` bits of a 32-bit word, the rest cleared. */
export function maskWord(word: number, bits: number): number {
  if (bits <= 0) return 0
  // In JavaScript a shift by 32 is a shift by 0, so a whole word is a special case.
  return bits >= 32 ? word : (word & (0xffffffff << (32 - bits))) >>> 0
}

/** Reads the number after a `/`, from `start` to the end of the text; -1 if it is not 0 to 128. */
export function readPrefixLength(text: string, start: number): number {
  const digits = text.length - start
  if (digits < 1 || digits > 3) return -1
  let value = 0
  for (let at = start; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 48
    if (digit < 0 || digit > 9) return -1
    value = value * 10 + digit
  }
  const hasLeadingZero = digits > 1 && text.charCodeAt(start) === 48
  return hasLeadingZero || value > 128 ? -1 : value
}

function requireGroupPrefix(prefix: number): void {
  if (isGroupPrefix(prefix, IPV6_PREFIX_MAX)) return
  const accepted = `a whole number from ${IPV6_PREFIX_MIN} to ${IPV6_PREFIX_MAX}`
  throw new RangeError(`ipv6Prefix: found ${prefix}; accepted: ${accepted}`)
}

function isGroupPrefix(prefix: number, longest: number): boolean {
  return Number.isInteger(prefix) && prefix >= IPV6_PREFIX_MIN && prefix <= longest
}

/** Reads dotted decimal between two indexes as an unsigned word; -1 if it is anything else. */
function readV4(text: string, start: number, end: number): number {
  let value = 0
  let octet = -1
  let dots = 0
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at)
    if (code === DOT) {
      if (octet === -1 || dots === 3) return -1
      value = value * 256 + octet
      octet = -1
      dots++
      continue
    }
    const digit = code - 48
    // Some parsers read a leading zero as octal: 010.0.0.1 as 8.0.0.1.
    if (digit < 0 || digit > 9 || octet === 0) return -1
    octet = octet === -1 ? digit : octet * 10 + digit
    if (octet > 255) return -1
  }
  return dots === 3 && octet !== -1 ? value * 256 + octet : -1
}

function parseV6(text: string): Address | undefined {
  const end = zoneStart(text)
  if (end === -1) return undefined
  const groups = [0, 0, 0, 0, 0, 0, 0, 0]
  let count = 0
  let gap = -1
  let at = 0
  if (text.charCodeAt(0) === COLON) {
    if (text.charCodeAt(1) !== COLON) return undefined
    gap = 0
    at = 2
  }
  while (at < end) {
    const stop = hexEnd(text, at, end)
    const size = stop - at
    if (size === 0 || size > 4 || count === GROUPS) return undefined
    if (stop < end && text.charCodeAt(stop) === DOT) {
      const v4 = readV4(text, at, end)
      if (v4 === -1 || count > GROUPS - 2) return undefined
      groups[count++] = v4 >>> 16
      groups[count++] = v4 & 0xffff
      break
    }
    groups[count++] = readHex(text, at, stop)
    if (stop === end) break
    // A group is followed by `:` and another group, or by `::` once.
    if (text.charCodeAt(stop) !== COLON || stop + 1 === end) return undefined
    at = stop + 1
    if (text.charCodeAt(at) !== COLON) continue
    if (gap !== -1) return undefined
    gap = count
    at++
  }
  // `::` replaces at least one group.
  if (gap === -1 ? count !== GROUPS : count === GROUPS) return undefined
  if (gap !== -1) openGap(groups, gap, count)
  return fromGroups(groups)
}

/** Returns where the address ends and its zone, if any, begins; -1 if the zone is invalid. */
function zoneStart(text: string): number {
  const percent = text.indexOf('%')
  if (percent === -1) return text.length
  for (let at = percent + 1; at < text.length; at++) {
    if (!isZoneCharacter(text.charCodeAt(at))) return -1
  }
  return percent + 1 < text.length ? percent : -1
}

/** Interface names consist of letters, digits and `-` `.` `_` `~`. */
function isZoneCharacter(code: number): boolean {
  const lower = code | 32
  if (lower >= 97 && lower <= 122 && code >= 65) return true
  if (code >= 48 && code <= 57) return true
  return code === 45 || code === DOT || code === 95 || code === 126
}

function hexEnd(text: string, start: number, end: number): number {
  let at = start
  while (at < end && hexDigit(text.charCodeAt(at)) !== -1) at++
  return at
}

function readHex(text: string, start: number, end: number): number {
  let value = 0
  for (let at = start; at < end; at++) value = value * 16 + hexDigit(text.charCodeAt(at))
  return value
}

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48
  const lower = code | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

/** Expands `::`: moves the groups after it to the end and fills the gap with zeros. */
function openGap(groups: number[], gap: number, count: number): void {
  groups.copyWithin(GROUPS - (count - gap), gap, count)
  groups.fill(0, gap, GROUPS - (count - gap))
}

function fromGroups(groups: readonly number[]): Address {
  const word = (index: number): number =>
    (((groups[index] ?? 0) << 16) | (groups[index + 1] ?? 0)) >>> 0
  const a = word(0)
  const b = word(2)
  const c = word(4)
  const d = word(6)
  return a === 0 && b === 0 && c === 0xffff
    ? { version: 4, a: 0, b: 0, c: 0, d }
    : { version: 6, a, b, c, d }
}

function formatV4(word: number): string {
  return `${word >>> 24}.${(word >>> 16) & 255}.${(word >>> 8) & 255}.${word & 255}`
}

function formatV6(a: number, b: number, c: number, d: number): string {
  const groups = [a >>> 16, a & 0xffff, b >>> 16, b & 0xffff]
  groups.push(c >>> 16, c & 0xffff, d >>> 16, d & 0xffff)
  // A single zero group is written out; of two runs equally long the first is shortened.
  let longest = 1
  let gap = -1
  let run = 0
  for (let index = 0; index < GROUPS; index++) {
    run = groups[index] === 0 ? run + 1 : 0
    if (run <= longest) continue
    longest = run
    gap = index + 1 - run
  }
  let text = ''
  for (let index = 0; index < GROUPS; index++) {
    if (index === gap) {
      text += '::'
      index += longest - 1
      continue
    }
    if (index > 0 && index !== gap + longest) text += ':'
    text += (groups[index] ?? 0).toString(16)
  }
  return text
}
