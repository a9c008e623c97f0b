/**
 * Finds the override of a caller: its own, else that of the longest network that contains its
 * address.
 *
 * A network replaces the address in the lookup; every other attribute is compared as usual.
 * Counters stay per caller: a network gives each of its callers other limits, not one shared
 * budget.
 */
import type { Address } from '../identity/address.js'
import { networkCode, networkText, parseCidr } from '../identity/cidr.js'
import { callerHash } from '../key.js'
import type { Hash64 } from '../sip-hash.js'
import type { CompiledRule, Snapshot } from './compiled.js'
import type { NormalizedCall } from './call-view.js'
import type { CompiledOverride, Network, OverrideIndex } from './override-index.js'

export interface CallerOfCall {
  readonly view: NormalizedCall
  /** The values of the attributes that the rule counts by. */
  readonly values: readonly string[]
  readonly caller: Hash64
}

/** Overrides that ended before `wallMs` do not apply. */
export function findOverride(
  snapshot: Snapshot,
  rule: CompiledRule,
  { view, values, caller }: CallerOfCall,
  wallMs: number,
): CompiledOverride | undefined {
  const index = snapshot.overrides?.[rule.order]
  if (index === undefined) return undefined
  const override = index.find(caller, wallMs)
  if (override !== undefined || index.networks.length === 0) return override
  // Text that is not an address is in no network.
  if (view.address === undefined) return undefined
  return findNetwork(snapshot, index, { by: rule.by, values, address: view.address }, wallMs)
}

function findNetwork(
  { secret }: Snapshot,
  index: OverrideIndex,
  { by, values, address }: CallerAddress,
  wallMs: number,
): CompiledOverride | undefined {
  const at = by.indexOf('ip')
  const most = bitsOf(values[at] ?? '', address)
  let networkValues: string[] | undefined
  for (let i = 0; i < index.networks.length; i++) {
    const network = index.networks[i]
    if (network?.version !== address.version || network.bits > most) continue
    if (!index.mayHaveNetwork(networkCode(address, network.bits))) continue
    networkValues ??= [...values]
    networkValues[at] = networkText(address, network.bits)
    const override = index.find(callerHash(secret, networkValues), wallMs)
    if (override !== undefined) return override
  }
  return undefined
}

interface CallerAddress {
  readonly by: readonly string[]
  readonly values: readonly string[]
  readonly address: Address
}

/** Returns the bits of a caller: one that is already a network is not in a smaller network. */
function bitsOf(ip: string, { version }: Address): number {
  const slash = ip.indexOf('/')
  if (slash === -1) return version === 4 ? 32 : 128
  return Number(ip.slice(slash + 1))
}

/** Returns the network of an override; undefined if it is for one caller. */
export function networkOfCaller(
  by: readonly string[],
  caller: readonly string[],
  ipv6Prefix: number,
): Network | undefined {
  const ip = caller[by.indexOf('ip')]
  if (ip?.includes('/') !== true) return undefined
  const network = parseCidr(ip)
  if ('problem' in network) return undefined
  const { version, bits } = network
  if (version === 6 && bits === ipv6Prefix) return undefined
  return { version, bits, code: networkCode(network, bits) }
}
