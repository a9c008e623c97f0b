/** Parses names and values of attributes, wherever a rule has them. */
import {
  canonicalIp,
  formatAddress,
  IPV6_PREFIX_DEFAULT,
  IPV6_PREFIX_MAX,
} from '../identity/address.js'
import { isOneAddress, parseCidr } from '../identity/cidr.js'
import { reportAt, reportProblemAt, itemsOf, readList, readText, type Located } from './reader.js'
import { NO_ATTRIBUTES } from './suggest.js'
import { describe, type Node, quote, type ScalarNode } from './tree.js'

const NAME = /^[a-z][a-z0-9_.-]{0,63}$/
const ACCEPTED_NAME = 'a name of 1 to 64 of a-z, 0-9, "_", "." and "-", a letter first'
const VALUE_LENGTH_MAX = 1024
export const ACCEPTED_VALUE = `text of 1 to ${VALUE_LENGTH_MAX} characters`
const BY_MAX = 8

/**
 * Words that authors write for one counter for all callers. Hardly any call has such attributes.
 */
const EVERYBODY_WORDS: readonly string[] = [
  '*',
  'all',
  'any',
  'anyone',
  'everybody',
  'everyone',
  'everything',
  'global',
  'globally',
  'nobody',
  'none',
  'null',
  'shared',
  'total',
]
const ONE_COUNTER = `${NO_ATTRIBUTES} for one counter for everybody`

export function readAttributeName(located: Located): string | undefined {
  const name = readText(located, { accepted: ACCEPTED_NAME, most: Number.POSITIVE_INFINITY })
  return name === undefined || !isAttributeName(located, name, located.node.at) ? undefined : name
}

/** Whether an attribute to count by is a word for all callers, in any case. */
export function meansEverybody(name: string): boolean {
  return EVERYBODY_WORDS.includes(name.toLowerCase())
}

/** `at` is the position of the name, which for a key differs from that of its value. */
export function isAttributeName(located: Located, name: string, at: number): boolean {
  if (NAME.test(name)) return true
  const lower = name.toLowerCase()
  const suggestion = NAME.test(lower) ? lower : undefined
  const found = describe({ kind: 'scalar', at, value: name })
  reportAt(located, 'bad-attribute', { at, found, accepted: ACCEPTED_NAME, suggestion })
  return false
}

/** The attributes that a rule counts by: a list, or a single one. */
export function readBy(located: Located): readonly string[] | undefined {
  if (located.node.kind === 'scalar') {
    const name = readCountedName(located)
    return name === undefined ? undefined : [name]
  }
  const list = readList(located, { items: 'attributes', most: BY_MAX })
  return list === undefined ? undefined : readDistinct(itemsOf(list), readCountedName)
}

/**
 * Reads one attribute of `by`. A word for all callers that is not a valid name gets the suggestion
 * `[]`: its lower case would be a name that no call has, so the rule would count nothing.
 */
function readCountedName(located: Located): string | undefined {
  const { node } = located
  const isScalar = node.kind === 'scalar'
  const isNothing = isScalar && (node.value === null || node.value === '')
  const word = isScalar && typeof node.value === 'string' ? node.value : ''
  if (isNothing || (meansEverybody(word) && !NAME.test(word))) {
    const accepted = `${ONE_COUNTER}, or ${ACCEPTED_NAME}`
    return reportAt(located, 'bad-attribute', { accepted, suggestion: NO_ATTRIBUTES })
  }
  return readAttributeName(located)
}

/** Reads each item and reports duplicates. */
export function readDistinct(
  locatedItems: readonly Located[],
  read: (located: Located) => string | undefined,
): readonly string[] {
  const values = new Set<string>()
  for (const located of locatedItems) {
    const value = read(located)
    if (value === undefined) continue
    if (values.has(value)) reportAt(located, 'duplicate-value', { accepted: 'each value once' })
    values.add(value)
  }
  return [...values]
}

/** Reads a value that an attribute is compared with. Numbers and booleans count as their text. */
export function readAttributeValue(
  located: Located,
  accepted = ACCEPTED_VALUE,
): string | undefined {
  const { node } = located
  if (node.kind !== 'scalar') return reportAt(located, 'wrong-type', { accepted })
  // An empty value means absent, so no call has it.
  if (node.value === null || node.value === '') return reportAt(located, 'bad-value', { accepted })
  if (typeof node.value !== 'string') return readDecimal(located, node)
  return readText(located, { accepted, most: VALUE_LENGTH_MAX })
}

/** The same for a value that is the key of a map. */
export function isAttributeValue(located: Located, value: string, at: number): boolean {
  const node: Node = { kind: 'scalar', at, value }
  return readAttributeValue({ ...located, node }) !== undefined
}

/** Reads an attribute value of an override's caller: for `ip` an address or a network. */
export function readCallerValue(located: Located, attribute: string): string | undefined {
  const value = readAttributeValue(located)
  if (value === undefined || attribute !== 'ip') return value
  if (value.includes('/')) return readCallerNetwork(located, value)
  // Kept as written: the IPv6 grouping is a setting of the node, unknown here.
  if (canonicalIp(value, IPV6_PREFIX_DEFAULT) !== undefined) return value
  const accepted = 'an address such as 203.0.113.7, or a network such as 203.0.113.0/24'
  return reportAt(located, 'bad-value', { accepted })
}

/** Reads a network as canonical text; a network of one address as that address. */
function readCallerNetwork(located: Located, value: string): string | undefined {
  const network = parseCidr(value)
  if ('problem' in network) return reportProblemAt(located, 'bad-cidr', network.problem)
  if (isOneAddress(network)) return formatAddress(network)
  const found = `${quote(value)}, which is`
  if (network.bits === 0) {
    const accepted =
      'a longer network such as 203.0.113.0/24; for every address the limits of the rule'
    return reportAt(located, 'bad-cidr', { found: `${found} every address`, accepted })
  }
  if (network.version === 4 || network.bits <= IPV6_PREFIX_MAX) return network.text
  const accepted = `for IPv6 a network up to /${IPV6_PREFIX_MAX}, or an address`
  return reportAt(located, 'bad-cidr', { found: `${found} less than one caller`, accepted })
}

/**
 * Refuses `007`, `1e3` and 20 digits: YAML reads them as numbers whose text differs, and only the
 * author knows whether the text or the number is meant.
 */
function readDecimal(located: Located, { value, source }: ScalarNode): string | undefined {
  const text = String(value)
  const isDecimal = typeof value === 'boolean' || /^-?\d+(\.\d+)?$/.test(text)
  if (isDecimal && (source === undefined || source === text)) return text
  return reportAt(located, 'bad-value', { accepted: `${ACCEPTED_VALUE}, in quotes` })
}
