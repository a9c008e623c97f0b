/** A JavaScript value as a tree. Only what JSON could say is read: no class, no getter's magic. */
import {
  DEPTH_MAX,
  type Entry,
  type MapNode,
  type Node,
  TOO_DEEP,
  type Tree,
  TreeRefused,
} from './tree.js'

/** An object may hold itself many times over, so its parts are counted as they are met. */
export const PARTS_MAX = 1_000_000

/** What reading an object took. */
export interface Extent {
  readonly depth: number
  readonly parts: number
}

/** An object as a map. One that was read before is looked into only where somebody asks. */
export class ObjectNode implements MapNode {
  readonly kind = 'map'
  readonly at = -1
  readonly repeated = NOTHING
  readonly badKeys = NOTHING
  readonly object: object
  readonly extent: Extent
  #entries: ReadonlyMap<string, Entry> | undefined

  constructor(object: object, extent: Extent, entries?: ReadonlyMap<string, Entry>) {
    this.object = object
    this.extent = extent
    this.#entries = entries
  }

  get entries(): ReadonlyMap<string, Entry> {
    this.#entries ??= new Map(
      Object.entries(this.object)
        .filter(([, field]) => field !== undefined)
        .map(([key, field]) => [key, new LaterEntry(key, field, this.extent)]),
    )
    return this.#entries
  }
}

class LaterEntry implements Entry {
  readonly at = -1
  readonly key: string
  readonly #field: unknown
  readonly #within: Extent
  #value: Node | undefined

  constructor(key: string, field: unknown, within: Extent) {
    this.key = key
    this.#field = field
    this.#within = within
  }

  get value(): Node {
    const { depth, parts: left } = this.#within
    this.#value ??= convert(this.#field, depth + 1, { left, known: undefined })
    return this.#value
  }
}

const NOTHING: readonly never[] = []

/** Of an object that was read before without a problem, and has not changed since. */
export type Known = (object: object) => Extent | undefined

interface Reading {
  left: number
  readonly known: Known | undefined
}

export function readValue(value: unknown, known?: Known): Tree {
  try {
    return { root: convert(value, 1, { left: PARTS_MAX, known }) }
  } catch (error) {
    if (error instanceof TreeRefused) return { problems: [error.problem] }
    throw error
  }
}

function convert(value: unknown, depth: number, reading: Reading): Node {
  const at = -1
  count(1, reading)
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
    for (const item of value) items.push(convert(item, depth + 1, reading))
    return { kind: 'list', at, items }
  }
  const extent = reading.known?.(value)
  // Further down it might be too deep.
  if (extent !== undefined && extent.depth >= depth) {
    count(extent.parts, reading)
    return new ObjectNode(value, extent)
  }
  if (!isPlain(value)) return { kind: 'foreign', at, type: 'an object that is not plain' }
  const before = reading.left
  const entries = convertEntries(value, depth, reading)
  return new ObjectNode(value, { depth, parts: before - reading.left }, entries)
}

function count(parts: number, reading: Reading): void {
  reading.left -= parts
  if (reading.left >= 0) return
  const found = `more than ${PARTS_MAX} values`
  const accepted = `up to ${PARTS_MAX} values`
  throw new TreeRefused({ code: 'too-large', at: -1, found, accepted })
}

function convertEntries(
  object: object,
  depth: number,
  reading: Reading,
): ReadonlyMap<string, Entry> {
  const entries = new Map<string, Entry>()
  for (const [key, field] of Object.entries(object)) {
    // `{ burst: undefined }` is how JavaScript leaves a field out.
    if (field === undefined) continue
    entries.set(key, { at: -1, key, value: convert(field, depth + 1, reading) })
  }
  return entries
}

/** Whether nothing but `Object.prototype` lies behind it: this realm's or another's, or none. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}
