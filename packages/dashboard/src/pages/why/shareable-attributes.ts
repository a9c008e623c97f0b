/**
 * What of a call may stand in an address. Browsers, proxies and whoever is sent a link keep
 * addresses: no place for a key.
 */
import type { Attributes } from '@sluice/client'

/** Open on every server. Any other may come from a header, and be a secret. */
const PUBLIC_NAMES: readonly string[] = ['user', 'plan', 'ip', 'method', 'path']
/** What stands for a secret, as the server shows it. */
const MASKED_VALUE = /^[0-9a-f]{16}\.\.[^]{0,4}$/

export interface ShareableAttributes {
  readonly attributes: Attributes
  /** The names of those that are left out. */
  readonly withheld: readonly string[]
}

/** `known`: what stands in the address already. */
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
