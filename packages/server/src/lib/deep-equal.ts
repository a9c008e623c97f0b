/** Compares two values deeply: stored documents or parsed rules. */

/** Deeper than any valid rule; deeper values count as different. */
const DEPTH_MAX = 64

/** Ignores the order of keys, which a store may not preserve. */
export function deepEqual(a: unknown, b: unknown, depth = 0): boolean {
  if (Object.is(a, b)) return true
  if (depth > DEPTH_MAX) return false
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a)) return Array.isArray(b) && equalLists(a, b, depth)
  if (a instanceof Map) return b instanceof Map && equalMaps(a, b, depth)
  if (Array.isArray(b) || b instanceof Map) return false
  return equalMaps(entriesOf(a), entriesOf(b), depth)
}

function equalLists(a: readonly unknown[], b: readonly unknown[], depth: number): boolean {
  return a.length === b.length && a.every((item, index) => deepEqual(item, b[index], depth + 1))
}

function equalMaps(
  a: ReadonlyMap<unknown, unknown>,
  b: ReadonlyMap<unknown, unknown>,
  depth: number,
): boolean {
  if (a.size !== b.size) return false
  for (const [key, value] of a)
    if (!b.has(key) || !deepEqual(value, b.get(key), depth + 1)) return false
  return true
}

/** A field that is undefined counts as absent. */
function entriesOf(value: object): ReadonlyMap<string, unknown> {
  return new Map(Object.entries(value).filter(([, field]) => field !== undefined))
}
