/** Which calls a rule is for: their method, their path, their attributes. */
import { parseCidr } from '../identity/cidr.js'
import { type PathPattern, parsePattern } from '../path.js'
import {
  ACCEPTED_VALUE,
  isAttributeName,
  readAttributeValue,
  readDistinct,
} from './parse-attribute.js'
import {
  complain,
  complainOf,
  isWithin,
  itemsOf,
  readAnyMap,
  readList,
  readMap,
  readOptional,
  readRequired,
  readText,
  type Spot,
  spotOf,
} from './reader.js'
import type { Match, Wanted } from './rule.js'

const METHODS_MAX = 16
const METHOD_LENGTH_MAX = 32
const WHERE_MAX = 16
const WHERE_VALUES_MAX = 1000

/**
 * A token of HTTP without small letters: methods are told apart by case, and all in use have none.
 */
const METHOD = /^[A-Z0-9!#$%&'*+.^_`|~-]+$/
const ACCEPTED_METHOD = 'a method in capital letters, such as GET'

export const EVERY_CALL: Match = { method: [], path: undefined, where: new Map() }

export function readMatch(spot: Spot): Match | undefined {
  const map = readMap(spot, ['method', 'path', 'where'])
  if (map === undefined) return undefined
  return {
    method: readOptional(map, 'method', readMethods) ?? [],
    path: readOptional(map, 'path', readPath)?.text,
    where: readOptional(map, 'where', readWhere) ?? new Map(),
  }
}

export function readMethod(spot: Spot): string | undefined {
  const method = readText(spot, { accepted: ACCEPTED_METHOD, most: METHOD_LENGTH_MAX })
  if (method === undefined || METHOD.test(method)) return method
  const upper = method.toUpperCase()
  const suggestion = METHOD.test(upper) ? upper : undefined
  return complain(spot, 'bad-method', { accepted: ACCEPTED_METHOD, suggestion })
}

export function readPath(spot: Spot): PathPattern | undefined {
  const accepted = 'a path such as /v1/orders/:id or /v1/*'
  const text = readText(spot, { accepted, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  const pattern = parsePattern(text)
  return 'problem' in pattern ? complainOf(spot, 'bad-path', pattern.problem) : pattern
}

function readMethods(spot: Spot): readonly string[] | undefined {
  if (spot.node.kind === 'scalar') return readDistinct([spot], readMethod)
  const list = readList(spot, { of: 'methods', most: METHODS_MAX })
  if (list === undefined) return undefined
  if (list.node.items.length === 0) {
    return complain(spot, 'empty', { accepted: 'one or more methods; no key for any method' })
  }
  return readDistinct(itemsOf(list), readMethod)
}

function readWhere(spot: Spot): Match['where'] | undefined {
  const map = readAnyMap(spot, 'a map of attributes to values')
  const shape = { of: 'attributes', most: WHERE_MAX }
  if (map === undefined || !isWithin(spot, map.node.entries.size, shape)) return undefined
  const where = new Map<string, Wanted>()
  for (const entry of map.node.entries.values()) {
    const field = spotOf(map, entry)
    const { at, key } = entry
    if (key === 'method' || key === 'path') {
      // Compared as plain text they would miss what patterns and their rules of case mean.
      const accepted = `match.${key}`
      complain(field, 'reserved-attribute', { at, found: `"${key}"`, accepted })
    } else if (isAttributeName(field, key, at)) {
      const wanted = readCondition(field, key === 'ip' ? readNetwork : readAttributeValue)
      if (wanted !== undefined) where.set(key, wanted)
    }
  }
  return where
}

type ReadOne = (spot: Spot) => string | undefined
/** `accepted` is what a value may be. */
type ReadValue = (spot: Spot, accepted: string) => string | undefined

const ACCEPTED_WANTED = `${ACCEPTED_VALUE}; null by itself for a call without the attribute`

function readCondition(spot: Spot, read: ReadValue): Wanted | undefined {
  const { node } = spot
  if (node.kind === 'scalar' && node.value === null) return null
  if (node.kind !== 'map') {
    const accepted = 'one or more values; null for a call without it'
    return readValues(spot, (value) => read(value, ACCEPTED_WANTED), accepted)
  }
  const map = readMap(spot, ['not'])
  if (map === undefined) return undefined
  const accepted = 'one or more values that the attribute must not have'
  const not = readRequired(map, 'not', {
    accepted,
    read: (field) => readValues(field, (value) => read(value, ACCEPTED_VALUE), accepted),
  })
  return not === undefined ? undefined : { not }
}

/** One value, or a list of some. */
function readValues(spot: Spot, read: ReadOne, accepted: string): readonly string[] | undefined {
  if (spot.node.kind === 'scalar') return readDistinct([spot], read)
  const list = readList(spot, { of: 'values', most: WHERE_VALUES_MAX })
  if (list === undefined) return undefined
  if (list.node.items.length === 0) return complain(spot, 'empty', { accepted })
  return readDistinct(itemsOf(list), read)
}

/** The canonical text of a network, so that two spellings of one are found to be the same. */
function readNetwork(spot: Spot, accepted: string): string | undefined {
  const text = readAttributeValue(spot, accepted)
  if (text === undefined) return undefined
  const cidr = parseCidr(text)
  return 'problem' in cidr ? complainOf(spot, 'bad-cidr', cidr.problem) : cidr.text
}
