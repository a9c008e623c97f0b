/** Parses the match of a rule: method, path and attributes. */
import { parseCidr } from '../identity/cidr.js'
import { type PathPattern, parsePattern } from '../path.js'
import {
  ACCEPTED_VALUE,
  isAttributeName,
  readAttributeValue,
  readDistinct,
} from './parse-attribute.js'
import {
  reportAt,
  reportProblemAt,
  isWithin,
  itemsOf,
  readAnyMap,
  readList,
  readMap,
  readOptional,
  readRequired,
  readText,
  type Located,
  locateEntry,
} from './reader.js'
import type { Match, WhereClause } from './rule.js'

const METHODS_MAX = 16
const METHOD_LENGTH_MAX = 32
const WHERE_MAX = 16
const WHERE_VALUES_MAX = 1000

/** An HTTP token in upper case: methods are case-sensitive, and all in use are upper case. */
const METHOD = /^[A-Z0-9!#$%&'*+.^_`|~-]+$/
const ACCEPTED_METHOD = 'a method in capital letters, such as GET'

export const EVERY_CALL: Match = { method: [], path: undefined, where: new Map() }

export function readMatch(located: Located): Match | undefined {
  const map = readMap(located, ['method', 'path', 'where'])
  if (map === undefined) return undefined
  return {
    method: readOptional(map, 'method', readMethods) ?? [],
    path: readOptional(map, 'path', readPath)?.text,
    where: readOptional(map, 'where', readWhere) ?? new Map(),
  }
}

export function readMethod(located: Located): string | undefined {
  const method = readText(located, { accepted: ACCEPTED_METHOD, most: METHOD_LENGTH_MAX })
  if (method === undefined || METHOD.test(method)) return method
  const upper = method.toUpperCase()
  const suggestion = METHOD.test(upper) ? upper : undefined
  return reportAt(located, 'bad-method', { accepted: ACCEPTED_METHOD, suggestion })
}

export function readPath(located: Located): PathPattern | undefined {
  const accepted = 'a path such as /v1/orders/:id or /v1/*'
  const text = readText(located, { accepted, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  const pattern = parsePattern(text)
  return 'problem' in pattern ? reportProblemAt(located, 'bad-path', pattern.problem) : pattern
}

function readMethods(located: Located): readonly string[] | undefined {
  if (located.node.kind === 'scalar') return readDistinct([located], readMethod)
  const list = readList(located, { items: 'methods', most: METHODS_MAX })
  if (list === undefined) return undefined
  if (list.node.items.length === 0) {
    return reportAt(located, 'empty', { accepted: 'one or more methods; no key for any method' })
  }
  return readDistinct(itemsOf(list), readMethod)
}

function readWhere(located: Located): Match['where'] | undefined {
  const map = readAnyMap(located, 'a map of attributes to values')
  const shape = { items: 'attributes', most: WHERE_MAX }
  if (map === undefined || !isWithin(located, map.node.entries.size, shape)) return undefined
  const where = new Map<string, WhereClause>()
  for (const entry of map.node.entries.values()) {
    const field = locateEntry(map, entry)
    const { at, key } = entry
    if (key === 'method' || key === 'path') {
      // Compared as plain text, they would ignore patterns and case folding.
      const accepted = `match.${key}`
      reportAt(field, 'reserved-attribute', { at, found: `"${key}"`, accepted })
    } else if (isAttributeName(field, key, at)) {
      const clause = readCondition(field, key === 'ip' ? readNetwork : readAttributeValue)
      if (clause !== undefined) where.set(key, clause)
    }
  }
  return where
}

type ReadOne = (located: Located) => string | undefined
/** `accepted` describes the accepted values, for messages. */
type ReadValue = (located: Located, accepted: string) => string | undefined

const ACCEPTED_CLAUSE = `${ACCEPTED_VALUE}; null by itself for a call without the attribute`

function readCondition(located: Located, read: ReadValue): WhereClause | undefined {
  const { node } = located
  if (node.kind === 'scalar' && node.value === null) return null
  if (node.kind !== 'map') {
    const accepted = 'one or more values; null for a call without it'
    return readValues(located, (value) => read(value, ACCEPTED_CLAUSE), accepted)
  }
  const map = readMap(located, ['not'])
  if (map === undefined) return undefined
  const accepted = 'one or more values that the attribute must not have'
  const not = readRequired(map, 'not', {
    accepted,
    read: (field) => readValues(field, (value) => read(value, ACCEPTED_VALUE), accepted),
  })
  return not === undefined ? undefined : { not }
}

/** Reads one value or a list of values. */
function readValues(
  located: Located,
  read: ReadOne,
  accepted: string,
): readonly string[] | undefined {
  if (located.node.kind === 'scalar') return readDistinct([located], read)
  const list = readList(located, { items: 'values', most: WHERE_VALUES_MAX })
  if (list === undefined) return undefined
  if (list.node.items.length === 0) return reportAt(located, 'empty', { accepted })
  return readDistinct(itemsOf(list), read)
}

/** Reads a network as canonical text, so that two spellings of one are equal. */
function readNetwork(located: Located, accepted: string): string | undefined {
  const text = readAttributeValue(located, accepted)
  if (text === undefined) return undefined
  const cidr = parseCidr(text)
  return 'problem' in cidr ? reportProblemAt(located, 'bad-cidr', cidr.problem) : cidr.text
}
