/**
 * Bounds on what one address may have of a listener at a time: connections, and calls that are in
 * flight. IPv6 counts by /64, which is the least that one subscriber holds. Addresses are known
 * while they are connected, so the table has at most as many as the listener has connections.
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

/** What an address has of a listener now. */
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

  /** Addresses that are counted now. */
  size(): number {
    return this.#uses.size
  }

  /** What an address has; undefined if it is not counted, or not known any more. */
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

  /** A connection that was reset before it was looked at has no address. */
  private countedAddress(remoteAddress: string | undefined): string | undefined {
    const address = remoteAddress === undefined ? undefined : parseAddress(remoteAddress)
    if (address === undefined || this.#options.isExempt(address)) return undefined
    return groupAddress(address, IPV6_PREFIX)
  }
}

/**
 * The addresses that stand for many clients: balancers, behind which all calls have one address,
 * and this machine's own.
 */
export function exemptAddresses(trustedProxies: readonly Cidr[]): (address: Address) => boolean {
  return (address) =>
    isLoopbackAddress(address) || trustedProxies.some((cidr) => cidrContains(cidr, address))
}
