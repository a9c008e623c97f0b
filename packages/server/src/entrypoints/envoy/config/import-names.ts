/** Names of the format as names of rules. */
import { show } from '@sluice/core'

const ATTRIBUTE = /^[a-z][a-z0-9_.-]{0,63}$/
const ID_LENGTH_MAX = 64

/** Keys whose attributes mean more in a rule than their text. */
const RESERVED: Readonly<Record<string, string>> = {
  domain: 'it is the domain of the request there',
  ip: 'an address there, and IPv6 is counted by network',
  method: 'compared in capitals there',
  path: 'a canonical path there, compared with patterns',
  priority: 'it says there which calls are more important',
}

export function isAttributeKey(key: string): boolean {
  return ATTRIBUTE.test(key)
}

export function reservedKeyReason(key: string): string | undefined {
  if (!Object.hasOwn(RESERVED, key)) return undefined
  return `the key "${key}" has a meaning of its own in rules: ${RESERVED[key]}`
}

/** An id of a rule: `shop.user_gold` is `shop-user-gold`. */
export function slugOf(path: string): string {
  const words = show(path, 4 * ID_LENGTH_MAX)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, ID_LENGTH_MAX)
    .replace(/-$/, '')
  return words === '' ? 'envoy' : words
}
