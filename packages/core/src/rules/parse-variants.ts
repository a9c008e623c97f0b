/** Parses the variants of a rule's limits: tiers, overrides and the candidate. */
import type { LimitSpec } from '../limit.js'
import { isAttributeName, isAttributeValue, readCallerValue } from './parse-attribute.js'
import { readLimits, readNonEmptyLimits } from './parse-limit.js'
import { readTime } from './parse-time.js'
import {
  reportAt,
  fieldName,
  isWithin,
  itemsOf,
  readAnyMap,
  readList,
  readMap,
  readOptional,
  readRequired,
  type Located,
  locateEntry,
} from './reader.js'
import type { Candidate, Override, Tiers } from './rule.js'
import { quote } from './tree.js'

const TIERS_MAX = 100
const OVERRIDES_MAX = 10_000
const ACCEPTED_TIERS = 'one attribute and its values, such as { plan: { pro: [100/second] } }'

export function readTiers(located: Located): Tiers | undefined {
  const map = readAnyMap(located, ACCEPTED_TIERS)
  if (map === undefined) return undefined
  const [entry, ...others] = map.node.entries.values()
  // With two attributes, a call could have two tiers without an order between them.
  if (entry === undefined || others.length > 0) {
    const found = `${map.node.entries.size} attributes`
    return reportAt(located, 'bad-tiers', { found, accepted: ACCEPTED_TIERS })
  }
  const values = readAnyMap(locateEntry(map, entry), 'a map of values to limits')
  if (values === undefined || !isAttributeName(locateEntry(map, entry), entry.key, entry.at)) {
    return undefined
  }
  const { entries } = values.node
  if (entries.size === 0) return reportAt(values, 'empty', { accepted: 'one or more values' })
  if (!isWithin(values, entries.size, { items: 'values', most: TIERS_MAX })) return undefined
  const limits = new Map<string, readonly LimitSpec[]>()
  for (const value of entries.values()) {
    const field = locateEntry(values, value)
    const list = readLimits(field)
    if (list !== undefined && isAttributeValue(field, value.key, value.at))
      limits.set(value.key, list)
  }
  return { attribute: entry.key, limits }
}

export function readCandidate(located: Located): Candidate | undefined {
  const map = readMap(located, ['limits', 'tiers'])
  if (map === undefined) return undefined
  const accepted = 'a list of limits'
  return {
    limits: readRequired(map, 'limits', { accepted, read: readNonEmptyLimits }) ?? [],
    tiers: readOptional(map, 'tiers', readTiers),
  }
}

/** `by` is undefined if it is invalid; then any caller is accepted. */
export function readOverrides(
  located: Located,
  by: readonly string[] | undefined,
): readonly Override[] | undefined {
  const list = readList(located, { items: 'overrides', most: OVERRIDES_MAX })
  if (list === undefined) return undefined
  const overrides: Override[] = []
  const fieldByCaller = new Map<string, string>()
  for (const item of itemsOf(list)) {
    const override = readOverride(item, by)
    if (override === undefined) continue
    const caller = JSON.stringify((by ?? []).map((attribute) => override.caller.get(attribute)))
    const why = fieldByCaller.get(caller)
    if (why !== undefined && by !== undefined) {
      const found = [...override.caller]
        .map(([name, value]) => `${name} ${quote(value)}`)
        .join(', ')
      reportAt(item, 'duplicate-override', { found, why, accepted: 'one override for each caller' })
    }
    fieldByCaller.set(caller, item.field)
    overrides.push(override)
  }
  return overrides
}

export function readOverride(
  located: Located,
  by: readonly string[] | undefined,
  read = readLimits,
): Override | undefined {
  const map = readMap(located, ['caller', 'limits', 'until'])
  if (map === undefined) return undefined
  const caller = readRequired(map, 'caller', {
    accepted: 'a map with a value for each attribute of by',
    read: (field) => readCaller(field, by),
  })
  const accepted = 'a list of limits; [] for no limit'
  const limits = readRequired(map, 'limits', { accepted, read })
  const untilMs = readOptional(map, 'until', readTime)
  if (caller === undefined || limits === undefined) return undefined
  return { caller, limits, untilMs }
}

function readCaller(
  located: Located,
  by: readonly string[] | undefined,
): Override['caller'] | undefined {
  const map = readAnyMap(located, 'a map with a value for each attribute of by')
  if (map === undefined) return undefined
  const { entries } = map.node
  const accepted =
    by === undefined || by.length === 0 ? 'no attribute' : `${by.join(', ')}, all of them`
  const caller = new Map<string, string>()
  for (const entry of entries.values()) {
    const field = locateEntry(map, entry)
    if (by === undefined || by.includes(entry.key)) {
      const value = readCallerValue(field, entry.key)
      if (value !== undefined) caller.set(entry.key, value)
      continue
    }
    const near = { word: entry.key, words: by }
    const { at } = entry
    reportAt(field, 'bad-caller', {
      at,
      found: quote(entry.key),
      why: 'is not in by',
      accepted,
      near,
    })
  }
  for (const attribute of by ?? []) {
    if (entries.has(attribute)) continue
    const field = fieldName(map, attribute)
    reportAt(map, 'bad-caller', { field, found: quote(attribute), why: 'is missing', accepted })
  }
  // An override that lacks a value names no caller, and is not compared with the others.
  return by === undefined || caller.size === by.length ? caller : undefined
}
