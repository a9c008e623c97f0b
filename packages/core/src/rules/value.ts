/** A JavaScript value as a tree. Only what JSON could say is read: no class, no getter's magic. */
import { DEPTH_MAX, type Entry, type Node, TOO_DEEP, type Tree, TreeRefused } from './tree.js'

/** An object may hold itself many times over, so its parts are counted as they are met. */
export const PARTS_MAX = 1_000_000

export function readValue(value: unknown): Tree {
  try {
    return { root: convert(value, 1, { left: PARTS_MAX }) }
  } catch (error) {
    if (error instanceof TreeRefused) return { problems: [error.problem] }
    throw error
  }
}

function convert(value: unknown, depth: number, parts: { left: number }): Node {
  const at = -1
  if (parts.left-- <= 0) {
    const found = `more than ${PARTS_MAX} values`
    throw new TreeRefused({ code: 'too-large', at, found, accepted: `up to ${PARTS_MAX} values` })
  }
  if (value === null || typeof value === 'string' || typeof value === 'boolean') {
    return { kind: 'scalar', at, value }
  }
  if (typeof value === 'number') return { kind: 'scalar', at, value }
  if (typeof value !== 'object')
    return { kind: 'foreign', at, type: `a value of type ${typeof value}` }
  // A value that holds itself ends here too.
  if (depth > DEPTH_MAX) throw new TreeRefused({ ...TOO_DEEP, at })

  if (Array.isArray(value)) {
    const items: Node[] = []
    for (const item of value) items.push(convert(item, depth + 1, parts))
    return { kind: 'list', at, items }
  }
  if (!isPlain(value)) return { kind: 'foreign', at, type: 'an object that is not plain' }
  const entries = new Map<string, Entry>()
  for (const [key, field] of Object.entries(value)) {
    // `{ burst: undefined }` is how JavaScript leaves a field out.
    if (field !== undefined) entries.set(key, { at, key, value: convert(field, depth + 1, parts) })
  }
  return { kind: 'map', at, entries, repeated: [], badKeys: [] }
}

/** Whether nothing but `Object.prototype` lies behind it: this realm's or another's, or none. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}
