/** The attributes of a descriptor, for the rules of Sluice. */
import type { Attributes } from '@sluice/core'
import type { DescriptorEntry } from './rate-limit-messages.js'

/** The entry of Envoy's action of the same name: the address of the client. */
const REMOTE_ADDRESS = 'remote_address'

/**
 * Every entry is an attribute. Of several with the same key the first has its name, the second that
 * name with `_2`, and so on: a rule can count by each. `domain` is the domain of the request, and
 * `ip` the remote address unless an entry has that name.
 */
export function attributesOf(domain: string, entries: readonly DescriptorEntry[]): Attributes {
  const attributes: Record<string, string> = { domain }
  let hasDuplicates = false
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i]
    if (entry === undefined) continue
    if (Object.hasOwn(attributes, entry.key)) hasDuplicates = true
    else attributes[entry.key] = entry.value
  }
  if (hasDuplicates) addDuplicates(attributes, entries)
  const address = attributes[REMOTE_ADDRESS]
  if (address !== undefined) attributes['ip'] ??= address
  return attributes
}

function addDuplicates(
  attributes: Record<string, string>,
  entries: readonly DescriptorEntry[],
): void {
  /** How often each key came: clients may send thousands of one. */
  const counts = new Map<string, number>()
  for (const { key, value } of entries) {
    if (key === 'domain') continue
    let count = (counts.get(key) ?? 0) + 1
    if (count > 1) {
      while (Object.hasOwn(attributes, `${key}_${count}`)) count++
      attributes[`${key}_${count}`] = value
    }
    counts.set(key, count)
  }
}
