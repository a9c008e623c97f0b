/**
 * Limits the connections and the calls in flight of one address on a listener. IPv6 addresses count
 * by their /64, the smallest network of one subscriber. Only connected addresses are stored, so the
 * table is at most as large as the number of connections.
 */
import { type Address, type Cidr, cidrContains, groupAddress, parseAddress } from '@sluice/core'
import { isLoopbackAddress } from '../../lib/loopback.js'

const IPV6_PREFIX = 64

export interface AddressBoundsOptions {
  readonly maxConnections: number
  readonly maxCalls: number
  /** Whether an address is not counted. */
  readonly isExempt: (address: Address) => boolean
}

/** The current connections and calls of an address. */
export interface AddressUse {
  /** IPv6 as its network. */
  readonly address: string
  connections: number
  calls: number
}

export class AddressBounds {
  readonly #options: AddressBoundsOptions
  readonly #uses = new Map<string, AddressUse>()

  constructor(options: AddressBoundsOptions) {
    this.#options = options
  }

  /** The number of addresses that are counted now. */
  size(): number {
    return this.#uses.size
  }

  /** The counts of an address; undefined if it is exempt or no longer connected. */
  find(remoteAddress: string | undefined): AddressUse | undefined {
    const address = this.countedAddress(remoteAddress)
    return address === undefined ? undefined : this.#uses.get(address)
  }

  /**
   * Counts a connection, until `disconnect`. `refused` if its address has too many; undefined if
   * the address is not counted.
   */
  connect(
    remoteAddress: string | undefined,
  ): AddressUse | { readonly refused: string } | undefined {
    const address = this.countedAddress(remoteAddress)
    if (address === undefined) return undefined
    const known = this.#uses.get(address)
    if (known === undefined) {
      const use = { address, connections: 1, calls: 0 }
      this.#uses.set(address, use)
      return use
    }
    if (known.connections >= this.#options.maxConnections) return { refused: address }
    known.connections++
    return known
  }

  disconnect(use: AddressUse): void {
    if (--use.connections === 0) this.#uses.delete(use.address)
  }

  hasRoomForCall({ calls }: AddressUse): boolean {
    return calls < this.#options.maxCalls
  }

  /** A connection that was reset before this point has no address. */
  private countedAddress(remoteAddress: string | undefined): string | undefined {
    const address = remoteAddress === undefined ? undefined : parseAddress(remoteAddress)
    if (address === undefined || this.#options.isExempt(address)) return undefined
    return groupAddress(address, IPV6_PREFIX)
  }
}

/** Exempts addresses that are shared by many clients: load balancers and loopback. */
export function exemptAddresses(trustedProxies: readonly Cidr[]): (address: Address) => boolean {
  return (address) =>
    isLoopbackAddress(address) || trustedProxies.some((cidr) => cidrContains(cidr, address))
}
