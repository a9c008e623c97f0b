/**
 * A trie over path segments: finds the values of every pattern that a path meets, without trying
 * them in turn.
 */
import type { PathPattern } from '../path.js'

interface Node<Value> {
  literals: Map<string, Node<Value>> | undefined
  param: Node<Value> | undefined
  /** Patterns that end here. */
  here: Value | undefined
  /** Patterns that end here with `*`: whatever lies below. */
  below: Value | undefined
}

export class PathTrie<Value> {
  readonly #root: Node<Value> = emptyNode()
  readonly #fold: (segment: string) => string

  constructor(fold: (segment: string) => string) {
    this.#fold = fold
  }

  /** The value kept for a pattern, made at first sight. */
  at(pattern: PathPattern, make: () => Value): Value {
    let node = this.#root
    for (const segment of pattern.segments) {
      if ('param' in segment) {
        node.param ??= emptyNode()
        node = node.param
        continue
      }
      const literal = this.#fold(segment.literal)
      node.literals ??= new Map()
      let child = node.literals.get(literal)
      if (child === undefined) {
        child = emptyNode()
        node.literals.set(literal, child)
      }
      node = child
    }
    if (pattern.wildcard) {
      node.below ??= make()
      return node.below
    }
    node.here ??= make()
    return node.here
  }

  /**
   * Appends the value of every pattern that `path` meets; the path is canonical and already folded.
   */
  find(path: string, found: Value[]): void {
    walk(this.#root, path, 1, found)
  }

  /**
   * The heaviest set of values that one path could meet, or undefined if there are too many sets to
   * look at. Follows all patterns at once, as `find` does, over every literal there is and one that
   * is none of them.
   */
  heaviest(weigh: (values: readonly Value[]) => number, statesMax: number): number | undefined {
    let heaviest = 0
    let states = 0
    const visit = (nodes: readonly Node<Value>[], above: readonly Value[]): boolean => {
      states += 1
      if (states > statesMax) return false
      const here = nodes.flatMap((node) => node.here ?? [])
      if (here.length > 0 || above.length > 0)
        heaviest = Math.max(heaviest, weigh([...above, ...here]))
      const below = [...above, ...nodes.flatMap((node) => node.below ?? [])]
      if (below.length > above.length) heaviest = Math.max(heaviest, weigh(below))
      const params = nodes.flatMap((node) => node.param ?? [])
      if (params.length > 0 && !visit(params, below)) return false
      for (const literal of literalsOf(nodes)) {
        const next = nodes.flatMap((node) => node.literals?.get(literal) ?? [])
        if (!visit(params.length === 0 ? next : [...next, ...params], below)) return false
      }
      return true
    }
    return visit([this.#root], []) ? heaviest : undefined
  }
}

function literalsOf<Value>(nodes: readonly Node<Value>[]): Iterable<string> {
  const [only, ...others] = nodes
  if (others.length === 0) return only?.literals?.keys() ?? []
  return new Set(nodes.flatMap((node) => [...(node.literals?.keys() ?? [])]))
}

function emptyNode<Value>(): Node<Value> {
  return { literals: undefined, param: undefined, here: undefined, below: undefined }
}

function walk<Value>(node: Node<Value>, path: string, from: number, found: Value[]): void {
  if (node.below !== undefined && from < path.length) found.push(node.below)
  const slash = path.indexOf('/', from)
  const end = slash === -1 ? path.length : slash
  const last = slash === -1
  if (node.literals !== undefined) {
    const child = node.literals.get(path.slice(from, end))
    if (child !== undefined) step(child, path, end, last, found)
  }
  if (node.param !== undefined && end > from) step(node.param, path, end, last, found)
}

function step<Value>(
  node: Node<Value>,
  path: string,
  end: number,
  last: boolean,
  found: Value[],
): void {
  if (!last) walk(node, path, end + 1, found)
  else if (node.here !== undefined) found.push(node.here)
}
