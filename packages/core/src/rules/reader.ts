/**
 * Reading one place of the tree after the other: each is what is asked for, or a problem is told.
 */
import type { Finding, ProblemCode, Report } from './problems.js'
import { show } from '../errors.js'
import { describe, type Entry, type ListNode, type MapNode, type Node, quote } from './tree.js'

/** A node, what it is called in messages, and whom to tell of problems. */
export interface Spot<T extends Node = Node> {
  readonly node: T
  /** `limits[0].window`; `document` or `rule` for the whole, whose fields go by their own name. */
  readonly field: string
  readonly report: Report
}

export const DOCUMENT = 'document'
export const RULE = 'rule'

/** How a reader complains of a spot: what it found is the node unless it says otherwise. */
type Complaint = Pick<Finding, 'accepted'> &
  Partial<Pick<Finding, 'at' | 'field' | 'found' | 'why' | 'suggestion' | 'near'>>

export function complain(spot: Spot, code: ProblemCode, complaint: Complaint): undefined {
  const { node, field, report } = spot
  return report({ code, at: node.at, field, found: describe(node), ...complaint })
}

export function fieldName(spot: Spot, key: string): string {
  // A key that is no name could forge the rest of the message.
  const name = /^[\w.-]{1,64}$/.test(key) ? key : quote(key)
  return spot.field === DOCUMENT || spot.field === RULE ? name : `${spot.field}.${name}`
}

export function spotOf(map: Spot<MapNode>, entry: Entry): Spot {
  return { node: entry.value, field: fieldName(map, entry.key), report: map.report }
}

export function fieldOf(map: Spot<MapNode>, key: string): Spot | undefined {
  const entry = map.node.entries.get(key)
  return entry === undefined ? undefined : spotOf(map, entry)
}

export function itemsOf(list: Spot<ListNode>): readonly Spot[] {
  const { field, report } = list
  return list.node.items.map((node, index) => ({ node, field: `${field}[${index}]`, report }))
}

/** A map with any keys: those that are no text or come twice are told of. */
export function readAnyMap(spot: Spot, accepted: string): Spot<MapNode> | undefined {
  const { node, field, report } = spot
  if (node.kind !== 'map') return complain(spot, 'wrong-type', { accepted })
  const map = { node, field, report }
  for (const { at, key } of node.repeated) {
    const found = quote(key)
    complain(spot, 'duplicate-key', {
      at,
      field: fieldName(spot, key),
      found,
      accepted: 'each key once',
    })
  }
  for (const at of node.badKeys) {
    complain(spot, 'bad-key', {
      at,
      found: 'a key that is a list, a map or an alias',
      accepted: 'text',
    })
  }
  return map
}

/** A map with these keys and no others. */
export function readMap(spot: Spot, keys: readonly string[]): Spot<MapNode> | undefined {
  const map = readAnyMap(spot, `a map with ${keys.join(', ')}`)
  if (map === undefined) return undefined
  for (const { at, key } of map.node.entries.values()) {
    if (keys.includes(key)) continue
    complain(spot, 'unknown-key', {
      at,
      field: fieldName(spot, key),
      found: quote(key),
      accepted: keys.join(', '),
      near: { word: key, words: keys },
    })
  }
  return map
}

interface ListShape {
  /** What the items are, in the plural: `limits`. */
  readonly of: string
  readonly most: number
}

export function readList(spot: Spot, { of, most }: ListShape): Spot<ListNode> | undefined {
  const { node, field, report } = spot
  if (node.kind !== 'list') return complain(spot, 'wrong-type', { accepted: `a list of ${of}` })
  if (!isWithin(spot, node.items.length, { of, most })) return undefined
  return { node, field, report }
}

/** Whether there are not too many; told of if there are. */
export function isWithin(spot: Spot, count: number, { of, most }: ListShape): boolean {
  if (count <= most) return true
  complain(spot, 'too-many', { found: `${count} ${of}`, accepted: `up to ${most} ${of}` })
  return false
}

/** A field that must be there. `accepted` is what to write if it is not. */
export function readRequired<T>(
  map: Spot<MapNode>,
  key: string,
  { accepted, read }: { readonly accepted: string; readonly read: (spot: Spot) => T | undefined },
): T | undefined {
  const spot = fieldOf(map, key)
  if (spot !== undefined) return read(spot)
  const field = fieldName(map, key)
  return complain(map, 'missing-field', { field, found: 'nothing', accepted })
}

/** A field that may be left out. What a bad one is read as does not matter: its set is not used. */
export function readOptional<T>(
  map: Spot<MapNode>,
  key: string,
  read: (spot: Spot) => T | undefined,
): T | undefined {
  const spot = fieldOf(map, key)
  return spot === undefined ? undefined : read(spot)
}

export function readText(
  spot: Spot,
  { accepted, most }: { readonly accepted: string; readonly most: number },
): string | undefined {
  const { node } = spot
  if (node.kind !== 'scalar' || typeof node.value !== 'string') {
    return complain(spot, 'wrong-type', { accepted })
  }
  if (node.value.length <= most) return node.value
  const found = `${node.value.length} characters`
  return complain(spot, 'too-long', { found, accepted: `up to ${most} characters` })
}

export function readBoolean(spot: Spot): boolean | undefined {
  const { node } = spot
  if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value
  return complain(spot, 'wrong-type', { accepted: 'true or false' })
}

export function readNumber(spot: Spot, accepted: string): number | undefined {
  const { node } = spot
  // Adding 0 turns -0, which prints as 0 and divides otherwise, into 0.
  if (node.kind === 'scalar' && typeof node.value === 'number') return node.value + 0
  return complain(spot, 'wrong-type', { accepted })
}

/** One of a few words. */
export function readChoice<T extends string>(
  spot: Spot,
  choices: readonly T[],
  accepted = choices.join(', '),
): T | undefined {
  const { node } = spot
  if (node.kind !== 'scalar' || typeof node.value !== 'string') {
    return complain(spot, 'wrong-type', { accepted })
  }
  const { value } = node
  const choice = choices.find((word) => word === value)
  if (choice !== undefined) return choice
  return complain(spot, 'unknown-value', { accepted, near: { word: value, words: choices } })
}

/** The two halves of `found ...; accepted: ...`, which paths and networks are refused with. */
export function complainOf(spot: Spot, code: ProblemCode, problem: string): undefined {
  const split = problem.lastIndexOf('; accepted: ')
  if (split === -1) return complain(spot, code, { accepted: problem })
  return complain(spot, code, {
    found: show(problem.slice(0, split).replace(/^found /, '')),
    accepted: problem.slice(split + '; accepted: '.length),
  })
}
