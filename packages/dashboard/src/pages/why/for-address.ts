/**
 * What of a call may stand in an address. Browsers, proxies and whoever is sent a link keep
 * addresses: no place for a key.
 */
import type { Attributes } from '@sluice/client'

/** Open on every server. Any other may come from a header, and be a secret. */
const OPEN: readonly string[] = ['user', 'plan', 'ip', 'method', 'path']
/** What stands for a secret, as the server shows it. */
const FORM = /^[0-9a-f]{16}\.\.[^]{0,4}$/

export interface ForAddress {
  readonly attributes: Attributes
  /** The names of those that are left out. */
  readonly kept: readonly string[]
}

/** `known`: what stands in the address already. */
export function forAddress(attributes: Attributes, known: Attributes): ForAddress {
  const isShown = ([name, value]: readonly [string, string]) =>
    OPEN.includes(name) || FORM.test(value) || (Object.hasOwn(known, name) && known[name] === value)
  const entries = Object.entries(attributes)
  return {
    attributes: Object.fromEntries(entries.filter(isShown)),
    kept: entries.filter((entry) => !isShown(entry)).map(([name]) => name),
  }
}
