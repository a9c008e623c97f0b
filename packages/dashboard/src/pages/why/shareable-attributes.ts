/**
 * Selects the attributes that may be part of an address. Browsers, proxies and recipients of links
 * store addresses, so secrets must not be in them.
 */
import type { Attributes } from '@sluice/client'

/** Never secret. Any other attribute may come from a header and be secret. */
const PUBLIC_NAMES: readonly string[] = ['user', 'plan', 'ip', 'method', 'path']
/** A secret as the server shows it: a hash and the last characters. */
const MASKED_VALUE = /^[0-9a-f]{16}\.\.[^]{0,4}$/

export interface ShareableAttributes {
  readonly attributes: Attributes
  /** Names of the attributes that are left out. */
  readonly withheld: readonly string[]
}

/** `known`: attributes that are already in the address. */
export function shareableAttributes(
  attributes: Attributes,
  known: Attributes,
): ShareableAttributes {
  const isShareable = ([name, value]: readonly [string, string]) =>
    PUBLIC_NAMES.includes(name) ||
    MASKED_VALUE.test(value) ||
    (Object.hasOwn(known, name) && known[name] === value)
  const entries = Object.entries(attributes)
  return {
    attributes: Object.fromEntries(entries.filter(isShareable)),
    withheld: entries.filter((entry) => !isShareable(entry)).map(([name]) => name),
  }
}
