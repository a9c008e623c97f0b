/** Finds the client address: the socket's peer, or the client that trusted proxies report. */
import { type Address, parseAddress } from './address.js'
import { type Cidr, cidrContains } from './cidr.js'
import { parseForwarded, parseForwardedFor } from './forwarded.js'

/**
 * A header is passed as its lines, in order, or omitted. Pass only the one that the proxies are
 * configured to write: a caller controls the other. If both are passed, X-Forwarded-For is read;
 * Forwarded is read only on its own.
 */
interface ClientAddressInput {
  /** The socket's remote address, without port. */
  readonly peer: string
  readonly trusted: readonly Cidr[]
  readonly forwardedFor?: readonly string[] | undefined
  readonly forwarded?: readonly string[] | undefined
}

interface ClientAddress {
  readonly address: Address
  /** How many entries of the header were trusted; 0 is the peer itself. */
  readonly hops: number
  readonly from: 'peer' | 'x-forwarded-for' | 'forwarded'
  /** Whether a header was ignored, wholly or from some entry on; count these. */
  readonly ignored: boolean
}

/**
 * Returns the address of the client; undefined if the peer itself has none.
 *
 * Each entry was written by the hop to its right, the last one by the peer, and is valid as long as
 * that hop is trusted. So the first untrusted address from the right is the client; if all are
 * trusted, the left-most is. An entry that is not an address stops the search at the last valid
 * one: anything beyond it could be forged.
 */
export function clientAddress(input: ClientAddressInput): ClientAddress | undefined {
  const { peer, trusted, forwardedFor = [], forwarded = [] } = input
  const peerAddress = parseAddress(peer)
  if (peerAddress === undefined) return undefined
  const isSent = forwardedFor.length > 0 || forwarded.length > 0
  if (!isSent || !isTrusted(trusted, peerAddress)) {
    return { address: peerAddress, hops: 0, from: 'peer', ignored: isSent }
  }

  const from = forwardedFor.length > 0 ? 'x-forwarded-for' : 'forwarded'
  const entries = from === 'forwarded' ? parseForwarded(forwarded) : parseForwardedFor(forwardedFor)
  let address = peerAddress
  let hops = 0
  while (hops < entries.length) {
    const entry = entries[entries.length - 1 - hops]
    if (entry === undefined) {
      return { address, hops, from: hops === 0 ? 'peer' : from, ignored: true }
    }
    address = entry
    hops++
    if (!isTrusted(trusted, address)) break
  }
  return { address, hops, from, ignored: false }
}

function isTrusted(trusted: readonly Cidr[], address: Address): boolean {
  for (const cidr of trusted) if (cidrContains(cidr, address)) return true
  return false
}
