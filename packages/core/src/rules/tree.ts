import { SHOWN_MAX, show } from '../errors.js'
/**
 * The tree of a document, whether from YAML, JSON or a JavaScript value. The parser of rules reads
 * this tree and is independent of the source format.
 */

interface Positioned {
  /** Its start as an offset in the text, or -1 if there is no text. */
  readonly at: number
}

export interface ScalarNode extends Positioned {
  readonly kind: 'scalar'
  readonly value: string | number | boolean | null
  /** The source text of a number: `007` and `1e3` differ from the text of their value. */
  readonly source?: string
}

export interface ListNode extends Positioned {
  readonly kind: 'list'
  readonly items: readonly Node[]
}

/** `at` is where the key begins. */
export interface MapEntry extends Positioned {
  readonly key: string
  readonly value: Node
}

export interface MapNode extends Positioned {
  readonly kind: 'map'
  /** A Map, so that `__proto__` is a key like any other. */
  readonly entries: ReadonlyMap<string, MapEntry>
  /** Entries with a repeated key. Kept separately, to be reported where the field name is known. */
  readonly repeated: readonly MapEntry[]
  /** The positions of keys that are lists, maps or aliases. */
  readonly badKeys: readonly number[]
}

/** A value that text cannot have: a function, a Date, a symbol. */
interface ForeignNode extends Positioned {
  readonly kind: 'foreign'
  readonly type: string
}

export type Node = ScalarNode | ListNode | MapNode | ForeignNode

/** Why there is no tree. */
export interface TreeProblem extends Positioned {
  readonly code: 'too-large' | 'too-deep' | 'too-many-aliases' | 'bad-yaml' | 'unsupported-yaml'
  readonly found: string
  readonly accepted: string
  readonly why?: string
}

export type Tree =
  | { readonly root: Node; readonly problems?: undefined }
  | { readonly root?: undefined; readonly problems: readonly TreeProblem[] }

/**
 * Thrown to leave a recursion at once, ours or the `yaml` package's; caught where the tree is
 * built.
 */
export class TreeError extends Error {
  readonly problem: TreeProblem

  constructor(problem: TreeProblem) {
    super(problem.code)
    this.problem = problem
  }
}

/** The deepest nesting of lists and maps. Rules need eight levels. */
export const DEPTH_MAX = 16

/** The problem of a list or a map at this offset that is nested more deeply than `levels`. */
export function tooDeep(at: number, levels: number): TreeProblem {
  const found = `more than ${levels} levels`
  const accepted = `lists and maps within each other up to ${levels} levels`
  return { code: 'too-deep', at, found, accepted }
}

export function quote(text: string): string {
  // Cut before escaping, so that a long text is not escaped whole.
  return `"${show(text.slice(0, SHOWN_MAX).replace(/["\\]/g, '\\$&'), SHOWN_MAX - 2)}"`
}

/** Describes a node for the `found` part of a message. */
export function describe(node: Node): string {
  switch (node.kind) {
    case 'scalar':
      if (typeof node.value === 'string') return quote(node.value)
      return show(node.source ?? String(node.value))
    case 'list':
      return node.items.length === 0 ? 'an empty list' : `a list of ${node.items.length}`
    case 'map':
      return node.entries.size === 0 ? 'an empty map' : 'a map'
    case 'foreign':
      return show(node.type)
  }
}
