/** Other limits than a rule's own: by tier, for one caller, or tried in shadow. */
import type { LimitSpec } from '../limit.js'
import { isAttributeName, isAttributeValue, readCallerValue } from './parse-attribute.js'
import { readLimits, readSomeLimits } from './parse-limit.js'
import { readTime } from './parse-time.js'
import {
  complain,
  fieldName,
  isWithin,
  itemsOf,
  readAnyMap,
  readList,
  readMap,
  readOptional,
  readRequired,
  type Spot,
  spotOf,
} from './reader.js'
import type { Candidate, Override, Tiers } from './rule.js'
import { quote } from './tree.js'

const TIERS_MAX = 100
const OVERRIDES_MAX = 10_000
const ACCEPTED_TIERS = 'one attribute and its values, such as { plan: { pro: [100/second] } }'

export function readTiers(spot: Spot): Tiers | undefined {
  const map = readAnyMap(spot, ACCEPTED_TIERS)
  if (map === undefined) return undefined
  const [entry, ...others] = map.node.entries.values()
  // With two, a call could have two tiers and no reason to prefer one.
  if (entry === undefined || others.length > 0) {
    const found = `${map.node.entries.size} attributes`
    return complain(spot, 'bad-tiers', { found, accepted: ACCEPTED_TIERS })
  }
  const values = readAnyMap(spotOf(map, entry), 'a map of values to limits')
  if (values === undefined || !isAttributeName(spotOf(map, entry), entry.key, entry.at)) {
    return undefined
  }
  const { entries } = values.node
  if (entries.size === 0) return complain(values, 'empty', { accepted: 'one or more values' })
  if (!isWithin(values, entries.size, { of: 'values', most: TIERS_MAX })) return undefined
  const limits = new Map<string, readonly LimitSpec[]>()
  for (const value of entries.values()) {
    const field = spotOf(values, value)
    const list = readLimits(field)
    if (list !== undefined && isAttributeValue(field, value.key, value.at))
      limits.set(value.key, list)
  }
  return { attribute: entry.key, limits }
}

export function readCandidate(spot: Spot): Candidate | undefined {
  const map = readMap(spot, ['limits', 'tiers'])
  if (map === undefined) return undefined
  const accepted = 'a list of limits'
  return {
    limits: readRequired(map, 'limits', { accepted, read: readSomeLimits }) ?? [],
    tiers: readOptional(map, 'tiers', readTiers),
  }
}

/** `by` is undefined where it could not be read: then any caller will do. */
export function readOverrides(
  spot: Spot,
  by: readonly string[] | undefined,
): readonly Override[] | undefined {
  const list = readList(spot, { of: 'overrides', most: OVERRIDES_MAX })
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
      complain(item, 'duplicate-override', { found, why, accepted: 'one override for each caller' })
    }
    fieldByCaller.set(caller, item.field)
    overrides.push(override)
  }
  return overrides
}

export function readOverride(
  spot: Spot,
  by: readonly string[] | undefined,
  read = readLimits,
): Override | undefined {
  const map = readMap(spot, ['caller', 'limits', 'until'])
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

function readCaller(spot: Spot, by: readonly string[] | undefined): Override['caller'] | undefined {
  const map = readAnyMap(spot, 'a map with a value for each attribute of by')
  if (map === undefined) return undefined
  const { entries } = map.node
  const accepted =
    by === undefined || by.length === 0 ? 'no attribute' : `${by.join(', ')}, all of them`
  const caller = new Map<string, string>()
  for (const entry of entries.values()) {
    const field = spotOf(map, entry)
    if (by === undefined || by.includes(entry.key)) {
      const value = readCallerValue(field, entry.key)
      if (value !== undefined) caller.set(entry.key, value)
      continue
    }
    const near = { word: entry.key, words: by }
    const { at } = entry
    complain(field, 'bad-caller', {
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
    complain(map, 'bad-caller', { field, found: quote(attribute), why: 'is missing', accepted })
  }
  // One that lacks a value names no caller, and must not be compared with those that do.
  return by === undefined || caller.size === by.length ? caller : undefined
}
