/**
 * A trie over path segments: finds the values of every pattern that a path matches, without trying
 * each.
 */
import type { PathPattern } from '../path.js'

interface Node<Value> {
  literals: Map<string, Node<Value>> | undefined
  param: Node<Value> | undefined
  /** Patterns that end here. */
  exact: Value | undefined
  /** Patterns that end here with `*`: all paths below. */
  wildcard: Value | undefined
}

export class PathTrie<Value> {
  readonly #root: Node<Value> = emptyNode()
  readonly #fold: (segment: string) => string

  constructor(fold: (segment: string) => string) {
    this.#fold = fold
  }

  /** Returns the value of a pattern and creates it on first use. */
  getOrCreate(pattern: PathPattern, make: () => Value): Value {
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
      node.wildcard ??= make()
      return node.wildcard
    }
    node.exact ??= make()
    return node.exact
  }

  /**
   * Appends the value of every pattern that matches `path`, which is canonical and already folded.
   */
  find(path: string, found: Value[]): void {
    walk(this.#root, path, 1, found)
  }
}

function emptyNode<Value>(): Node<Value> {
  return { literals: undefined, param: undefined, exact: undefined, wildcard: undefined }
}

function walk<Value>(node: Node<Value>, path: string, from: number, found: Value[]): void {
  if (node.wildcard !== undefined && from < path.length) found.push(node.wildcard)
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
  else if (node.exact !== undefined) found.push(node.exact)
}
