/**
 * Converts a JavaScript value to a tree. Only values that JSON can represent are read: no class
 * instances.
 */
import {
  DEPTH_MAX,
  type MapEntry,
  type MapNode,
  type Node,
  tooDeep,
  type Tree,
  TreeError,
} from './tree.js'

/** An object may contain itself many times, so values are counted at every occurrence. */
export const VALUES_MAX = 1_000_000

/** The size of an object that was read. */
export interface ObjectSize {
  readonly depth: number
  readonly values: number
}

/** A map node of an object. An object that was read before is converted only on demand. */
export class ObjectNode implements MapNode {
  readonly kind = 'map'
  readonly at = -1
  readonly repeated = NO_ITEMS
  readonly badKeys = NO_ITEMS
  readonly object: object
  readonly size: ObjectSize
  #entries: ReadonlyMap<string, MapEntry> | undefined

  constructor(object: object, size: ObjectSize, entries?: ReadonlyMap<string, MapEntry>) {
    this.object = object
    this.size = size
    this.#entries = entries
  }

  get entries(): ReadonlyMap<string, MapEntry> {
    this.#entries ??= new Map(
      Object.entries(this.object)
        .filter(([, field]) => field !== undefined)
        .map(([key, field]) => [key, new LazyEntry(key, field, this.size)]),
    )
    return this.#entries
  }
}

class LazyEntry implements MapEntry {
  readonly at = -1
  readonly key: string
  readonly #field: unknown
  readonly #parentSize: ObjectSize
  #value: Node | undefined

  constructor(key: string, field: unknown, parentSize: ObjectSize) {
    this.key = key
    this.#field = field
    this.#parentSize = parentSize
  }

  get value(): Node {
    const { depth, values: left } = this.#parentSize
    this.#value ??= convert(this.#field, depth + 1, { left, lookUpSize: undefined })
    return this.#value
  }
}

const NO_ITEMS: readonly never[] = []

/**
 * Returns the size of an object that was read before without a problem and has not changed since.
 */
export type SizeLookup = (object: object) => ObjectSize | undefined

interface ReadBudget {
  left: number
  readonly lookUpSize: SizeLookup | undefined
}

export function readValue(value: unknown, lookUpSize?: SizeLookup): Tree {
  try {
    return { root: convert(value, 1, { left: VALUES_MAX, lookUpSize }) }
  } catch (error) {
    if (error instanceof TreeError) return { problems: [error.problem] }
    throw error
  }
}

function convert(value: unknown, depth: number, budget: ReadBudget): Node {
  const at = -1
  count(1, budget)
  if (value === null || typeof value === 'string' || typeof value === 'boolean') {
    return { kind: 'scalar', at, value }
  }
  if (typeof value === 'number') return { kind: 'scalar', at, value }
  if (typeof value !== 'object')
    return { kind: 'foreign', at, type: `a value of type ${typeof value}` }
  // A cyclic value ends here too.
  if (depth > DEPTH_MAX) throw new TreeError(tooDeep(at, DEPTH_MAX))

  if (Array.isArray(value)) {
    const items: Node[] = []
    for (const item of value) items.push(convert(item, depth + 1, budget))
    return { kind: 'list', at, items }
  }
  const size = budget.lookUpSize?.(value)
  // At a greater depth it might be too deep.
  if (size !== undefined && size.depth >= depth) {
    count(size.values, budget)
    return new ObjectNode(value, size)
  }
  if (!isPlainObject(value)) return { kind: 'foreign', at, type: 'an object that is not plain' }
  const before = budget.left
  const entries = convertEntries(value, depth, budget)
  return new ObjectNode(value, { depth, values: before - budget.left }, entries)
}

function count(values: number, budget: ReadBudget): void {
  budget.left -= values
  if (budget.left >= 0) return
  const found = `more than ${VALUES_MAX} values`
  const accepted = `up to ${VALUES_MAX} values`
  throw new TreeError({ code: 'too-large', at: -1, found, accepted })
}

function convertEntries(
  object: object,
  depth: number,
  budget: ReadBudget,
): ReadonlyMap<string, MapEntry> {
  const entries = new Map<string, MapEntry>()
  for (const [key, field] of Object.entries(object)) {
    // In JavaScript, `{ burst: undefined }` is an absent field.
    if (field === undefined) continue
    entries.set(key, { at: -1, key, value: convert(field, depth + 1, budget) })
  }
  return entries
}

/** Whether its prototype is `Object.prototype`, of this realm or another, or null. */
export function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}
