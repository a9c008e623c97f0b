/**
 * Which override holds for a caller: its own, else that of the longest network its address is in.
 *
 * A network stands in the place of the address, and every other attribute is compared as always.
 * The counter stays that of the caller: a network gives each of its callers other limits, and not
 * all of them one budget.
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
  /** Of the attributes that the rule counts by. */
  readonly values: readonly string[]
  readonly caller: Hash64
}

/** `wallMs` ends overrides. */
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
  // What is no address is in no network.
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

/** A caller that is a network already is not within one that is smaller. */
function bitsOf(ip: string, { version }: Address): number {
  const slash = ip.indexOf('/')
  if (slash === -1) return version === 4 ? 32 : 128
  return Number(ip.slice(slash + 1))
}

/** The network that an override is for; undefined: it is for one caller. */
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
