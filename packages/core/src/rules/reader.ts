/** Reads nodes of the tree: each has the requested type, or a problem is reported. */
import type { Diagnostic, ProblemCode, ReportDiagnostic } from './diagnostics.js'
import { show } from '../errors.js'
import { describe, type MapEntry, type ListNode, type MapNode, type Node, quote } from './tree.js'

/** A node, its name in messages, and the function that reports its problems. */
export interface Located<T extends Node = Node> {
  readonly node: T
  /**
   * `limits[0].window`; `document` or `rule` for the whole, whose fields are named without a
   * prefix.
   */
  readonly field: string
  readonly report: ReportDiagnostic
}

export const DOCUMENT = 'document'
export const RULE = 'rule'

/** The details of a reported problem; the found value is the node by default. */
type DiagnosticDetails = Pick<Diagnostic, 'accepted'> &
  Partial<Pick<Diagnostic, 'at' | 'field' | 'found' | 'why' | 'suggestion' | 'near'>>

export function reportAt(
  located: Located,
  code: ProblemCode,
  details: DiagnosticDetails,
): undefined {
  const { node, field, report } = located
  return report({ code, at: node.at, field, found: describe(node), ...details })
}

export function fieldName(located: Located, key: string): string {
  // A key that is not a plain name could forge the rest of the message.
  const name = /^[\w.-]{1,64}$/.test(key) ? key : quote(key)
  return located.field === DOCUMENT || located.field === RULE ? name : `${located.field}.${name}`
}

export function locateEntry(map: Located<MapNode>, entry: MapEntry): Located {
  return { node: entry.value, field: fieldName(map, entry.key), report: map.report }
}

export function fieldOf(map: Located<MapNode>, key: string): Located | undefined {
  const entry = map.node.entries.get(key)
  return entry === undefined ? undefined : locateEntry(map, entry)
}

export function itemsOf(list: Located<ListNode>): readonly Located[] {
  const { field, report } = list
  return list.node.items.map((node, index) => ({ node, field: `${field}[${index}]`, report }))
}

/** Reads a map with any keys; reports keys that are not text or are repeated. */
export function readAnyMap(located: Located, accepted: string): Located<MapNode> | undefined {
  const { node, field, report } = located
  if (node.kind !== 'map') return reportAt(located, 'wrong-type', { accepted })
  const map = { node, field, report }
  for (const { at, key } of node.repeated) {
    const found = quote(key)
    reportAt(located, 'duplicate-key', {
      at,
      field: fieldName(located, key),
      found,
      accepted: 'each key once',
    })
  }
  for (const at of node.badKeys) {
    reportAt(located, 'bad-key', {
      at,
      found: 'a key that is a list, a map or an alias',
      accepted: 'text',
    })
  }
  return map
}

/** Reads a map with these keys and no others. */
export function readMap(located: Located, keys: readonly string[]): Located<MapNode> | undefined {
  const map = readAnyMap(located, `a map with ${keys.join(', ')}`)
  if (map === undefined) return undefined
  for (const { at, key } of map.node.entries.values()) {
    if (keys.includes(key)) continue
    reportAt(located, 'unknown-key', {
      at,
      field: fieldName(located, key),
      found: quote(key),
      accepted: keys.join(', '),
      near: { word: key, words: keys },
    })
  }
  return map
}

interface ListBounds {
  /** The name of the items, in the plural: `limits`. */
  readonly items: string
  readonly most: number
}

export function readList(
  located: Located,
  { items, most }: ListBounds,
): Located<ListNode> | undefined {
  const { node, field, report } = located
  if (node.kind !== 'list')
    return reportAt(located, 'wrong-type', { accepted: `a list of ${items}` })
  if (!isWithin(located, node.items.length, { items, most })) return undefined
  return { node, field, report }
}

/** Returns whether the count is within the bound, and reports a problem if not. */
export function isWithin(located: Located, count: number, { items, most }: ListBounds): boolean {
  if (count <= most) return true
  reportAt(located, 'too-many', { found: `${count} ${items}`, accepted: `up to ${most} ${items}` })
  return false
}

/** Reads a required field. `accepted` is the suggestion if it is absent. */
export function readRequired<T>(
  map: Located<MapNode>,
  key: string,
  {
    accepted,
    read,
  }: { readonly accepted: string; readonly read: (located: Located) => T | undefined },
): T | undefined {
  const located = fieldOf(map, key)
  if (located !== undefined) return read(located)
  const field = fieldName(map, key)
  return reportAt(map, 'missing-field', { field, found: 'nothing', accepted })
}

/** Reads an optional field. The value of an invalid one does not matter: its set is not used. */
export function readOptional<T>(
  map: Located<MapNode>,
  key: string,
  read: (located: Located) => T | undefined,
): T | undefined {
  const located = fieldOf(map, key)
  return located === undefined ? undefined : read(located)
}

export function readText(
  located: Located,
  { accepted, most }: { readonly accepted: string; readonly most: number },
): string | undefined {
  const { node } = located
  if (node.kind !== 'scalar' || typeof node.value !== 'string') {
    return reportAt(located, 'wrong-type', { accepted })
  }
  if (node.value.length <= most) return node.value
  const found = `${node.value.length} characters`
  return reportAt(located, 'too-long', { found, accepted: `up to ${most} characters` })
}

export function readBoolean(located: Located): boolean | undefined {
  const { node } = located
  if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value
  return reportAt(located, 'wrong-type', { accepted: 'true or false' })
}

export function readNumber(located: Located, accepted: string): number | undefined {
  const { node } = located
  // Adding 0 turns -0 into 0: -0 prints as 0 but divides differently.
  if (node.kind === 'scalar' && typeof node.value === 'number') return node.value + 0
  return reportAt(located, 'wrong-type', { accepted })
}

/** Reads one of a few words. */
export function readChoice<T extends string>(
  located: Located,
  choices: readonly T[],
  accepted = choices.join(', '),
): T | undefined {
  const { node } = located
  if (node.kind !== 'scalar' || typeof node.value !== 'string') {
    return reportAt(located, 'wrong-type', { accepted })
  }
  const { value } = node
  const choice = choices.find((word) => word === value)
  if (choice !== undefined) return choice
  return reportAt(located, 'unknown-value', { accepted, near: { word: value, words: choices } })
}

/** Splits `found ...; accepted: ...`, the form in which paths and networks are refused. */
export function reportProblemAt(located: Located, code: ProblemCode, problem: string): undefined {
  const split = problem.lastIndexOf('; accepted: ')
  if (split === -1) return reportAt(located, code, { accepted: problem })
  return reportAt(located, code, {
    found: show(problem.slice(0, split).replace(/^found /, '')),
    accepted: problem.slice(split + '; accepted: '.length),
  })
}
