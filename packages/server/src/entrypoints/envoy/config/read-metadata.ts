/** Reads `metadata`: any YAML, which is sent to Envoy as JSON. */
import { fieldName, type Located, type Node, quote, reportAt } from '@sluice/core/config-reader'
import type { JsonObject, JsonValue } from '../../../lib/json-map.js'

/** It is sent with every answer. */
const VALUES_MAX = 1000

export function readMetadata(located: Located): JsonObject | undefined {
  const { node } = located
  if (node.kind !== 'map') return reportAt(located, 'wrong-type', { accepted: 'a map' })
  const size = sizeOf(node, VALUES_MAX)
  if (size > VALUES_MAX) {
    const found = `more than ${VALUES_MAX} values`
    return reportAt(located, 'too-many', { found, accepted: `up to ${VALUES_MAX} values` })
  }
  const value = toJson(located)
  return typeof value === 'object' && value !== null && isObject(value) ? value : undefined
}

function isObject(value: JsonObject | readonly JsonValue[]): value is JsonObject {
  return !Array.isArray(value)
}

/** Counts up to a few more than `most`. */
function sizeOf(node: Node, most: number): number {
  if (node.kind !== 'map' && node.kind !== 'list') return 1
  let size = 1
  const values = node.kind === 'list' ? node.items : [...node.entries.values()].map(valueOf)
  for (const value of values) {
    size += sizeOf(value, most - size)
    if (size > most) return size
  }
  return size
}

function valueOf({ value }: { readonly value: Node }): Node {
  return value
}

function toJson(located: Located): JsonValue | undefined {
  const { node, field, report } = located
  if (node.kind === 'foreign') return reportAt(located, 'wrong-type', { accepted: 'JSON' })
  if (node.kind === 'list') {
    return node.items.flatMap((item, index) => {
      const value = toJson({ node: item, field: `${field}[${index}]`, report })
      return value === undefined ? [] : [value]
    })
  }
  if (node.kind === 'scalar') {
    if (typeof node.value !== 'number' || Number.isFinite(node.value)) return node.value
    return reportAt(located, 'bad-number', { accepted: 'a finite number' })
  }
  for (const { at, key } of node.repeated) {
    reportAt(located, 'duplicate-key', {
      at,
      field: fieldName(located, key),
      found: quote(key),
      accepted: 'each key once',
    })
  }
  for (const at of node.badKeys) {
    reportAt(located, 'bad-key', { at, found: 'a key that is no text', accepted: 'text' })
  }
  const entries = [...node.entries.values()].flatMap(({ key, value: child }) => {
    const value = toJson({ node: child, field: fieldName(located, key), report })
    return value === undefined ? [] : [[key, value] as const]
  })
  return toObject(entries)
}

/** `__proto__` is a name like any other. */
function toObject(entries: readonly (readonly [string, JsonValue])[]): JsonObject {
  return Object.fromEntries(entries)
}
