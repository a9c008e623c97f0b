/**
 * Masks values of secret attributes in a rule: in `match.where`, and in tiers. They are stored as
 * calls have them, hash and last characters: in plain text every reader of rules would see them,
 * and they would match no call.
 */
import { isJsonMap, type JsonMap } from '../../lib/json-map.js'
import type { CallerOptions } from './override-callers.js'
import type { RuleDocuments } from '../sync/rule-parser.js'

type Hide = CallerOptions['hideSecrets']

/** Returns the same objects if there is nothing to hide. The rule has to be valid. */
export function hideInRule({ document, candidate }: RuleDocuments, hide: Hide): RuleDocuments {
  return {
    document: hideTiers(hideWhere(document, hide), hide),
    candidate: candidate && hideTiers(candidate, hide),
  }
}

function hideWhere<Document extends object>(document: Document, hide: Hide): Document {
  const { match } = document as { readonly match?: unknown }
  if (!isJsonMap(match) || !isJsonMap(match['where'])) return document
  const { where } = match
  const hidden = mapFields(where, (name, wanted) => {
    if (!isJsonMap(wanted)) return hideValues(name, wanted, hide)
    return mapFields(wanted, (_, values) => hideValues(name, values, hide))
  })
  return hidden === where ? document : { ...document, match: { ...match, where: hidden } }
}

function hideTiers<Document extends object>(document: Document, hide: Hide): Document {
  const { tiers } = document as { readonly tiers?: unknown }
  if (!isJsonMap(tiers)) return document
  const hidden = mapFields(tiers, (name, limits) => {
    if (!isJsonMap(limits)) return limits
    const entries = Object.entries(limits).map(
      ([value, own]) => [String(hideValue(name, value, hide)), own] as const,
    )
    const isSame = entries.every(([value]) => Object.hasOwn(limits, value))
    return isSame ? limits : Object.fromEntries(entries)
  })
  return hidden === tiers ? document : { ...document, tiers: hidden }
}

/** Masks one value, or a list; returns the same list if every value is unchanged. */
function hideValues(name: string, given: unknown, hide: Hide): unknown {
  if (!Array.isArray(given)) return hideValue(name, given, hide)
  const values = given.map((item) => hideValue(name, item, hide))
  return values.every((item, index) => item === given[index]) ? given : values
}

function hideValue(name: string, value: unknown, hide: Hide): unknown {
  if (typeof value !== 'string' && typeof value !== 'number') return value
  return hide({ [name]: value })[name]
}

/** Returns the same map if every field is unchanged. */
function mapFields(map: JsonMap, transform: (name: string, value: unknown) => unknown): JsonMap {
  const entries = Object.entries(map).map(
    ([name, value]) => [name, transform(name, value)] as const,
  )
  return entries.every(([name, value]) => map[name] === value) ? map : Object.fromEntries(entries)
}
