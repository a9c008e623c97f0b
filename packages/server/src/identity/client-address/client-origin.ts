/** Finds where a call comes from: the peer, or the client that a trusted peer names. */
import {
  type Address,
  type Cidr,
  cidrContains,
  clientAddress,
  formatAddress,
  parseAddress,
} from '@sluice/core'

export interface ClientOrigin {
  /** The client's address, canonical. IPv6 is grouped by network later, by the rules. */
  readonly ip: string
  readonly peer: string
  readonly trusted: boolean
  /** The client, the trusted hops, the peer. */
  readonly forwardedFor: string
  /** Whether a forwarding header was ignored, completely or from some entry on. */
  readonly ignored: boolean
}

export interface ClientOriginOptions {
  readonly trustedProxies: readonly Cidr[]
  /** The header that the proxies write; the other one may come from the client. */
  readonly forwardedHeader: 'x-forwarded-for' | 'forwarded'
}

/** Undefined if the peer has no address, for example after a reset. */
export function findClientOrigin(
  options: ClientOriginOptions,
  remoteAddress: string | undefined,
  lines: readonly string[],
): ClientOrigin | undefined {
  const address = remoteAddress === undefined ? undefined : parseAddress(remoteAddress)
  if (remoteAddress === undefined || address === undefined) return undefined
  const peer = formatAddress(address)
  const trusted = isTrusted(options.trustedProxies, address)
  if (!trusted || lines.length === 0) {
    return { ip: peer, peer, trusted, forwardedFor: peer, ignored: lines.length > 0 }
  }

  const found = clientOf(options, peer, lines)
  if (found === undefined) return undefined
  const { hops, ignored } = found
  const ip = formatAddress(found.address)
  const chain = hops > 1 ? believedHops(options, peer, lines, hops) : [ip]
  const forwardedFor = hops === 0 ? peer : `${chain.join(', ')}, ${peer}`
  return { ip, peer, trusted, forwardedFor, ignored }
}

function isTrusted(cidrs: readonly Cidr[], address: Address): boolean {
  for (const cidr of cidrs) if (cidrContains(cidr, address)) return true
  return false
}

function clientOf(options: ClientOriginOptions, peer: string, lines: readonly string[]) {
  const { trustedProxies: trusted, forwardedHeader } = options
  return forwardedHeader === 'forwarded'
    ? clientAddress({ peer, trusted, forwarded: lines })
    : clientAddress({ peer, trusted, forwardedFor: lines })
}

/** One element of Forwarded: a comma within quotes does not end it. */
const FORWARDED_ELEMENT = /(?:[^",]|"(?:[^"\\]|\\.)*")+/g

/**
 * The last `hops` entries, as addresses. The header was parsed already and is valid, so it is only
 * split at the same commas; each entry is then parsed by the same parser.
 */
function believedHops(
  options: ClientOriginOptions,
  peer: string,
  lines: readonly string[],
  hops: number,
): readonly string[] {
  const text = lines.join(',')
  const entries =
    options.forwardedHeader === 'forwarded' ? text.match(FORWARDED_ELEMENT) : text.split(',')
  return (entries ?? []).slice(-hops).map((entry) => {
    const found = clientOf(options, peer, [entry])
    return found === undefined ? peer : formatAddress(found.address)
  })
}
