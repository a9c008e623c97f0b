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
import type { Facts } from './facts.js'
import type { CompiledOverride, Network, OverrideIndex } from './override-index.js'

export interface CallerOfCall {
  readonly facts: Facts
  /** Of the attributes that the rule counts by. */
  readonly values: readonly string[]
  readonly caller: Hash64
}

/** `wallMs` ends overrides. */
export function findOverride(
  snapshot: Snapshot,
  rule: CompiledRule,
  { facts, values, caller }: CallerOfCall,
  wallMs: number,
): CompiledOverride | undefined {
  const index = snapshot.overrides?.[rule.order]
  if (index === undefined) return undefined
  const own = index.find(caller, wallMs)
  if (own !== undefined || index.networks.length === 0) return own
  // What is no address is in no network.
  if (facts.address === undefined) return undefined
  return findNetwork(snapshot, index, { by: rule.by, values, address: facts.address }, wallMs)
}

function findNetwork(
  { secret }: Snapshot,
  index: OverrideIndex,
  { by, values, address }: Named,
  wallMs: number,
): CompiledOverride | undefined {
  const at = by.indexOf('ip')
  const most = bitsOf(values[at] ?? '', address)
  let named: string[] | undefined
  for (let i = 0; i < index.networks.length; i++) {
    const network = index.networks[i]
    if (network?.version !== address.version || network.bits > most) continue
    if (!index.mayHaveNetwork(networkCode(address, network.bits))) continue
    named ??= [...values]
    named[at] = networkText(address, network.bits)
    const own = index.find(callerHash(secret, named), wallMs)
    if (own !== undefined) return own
  }
  return undefined
}

interface Named {
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
