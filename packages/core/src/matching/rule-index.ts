/**
 * All rules of a set, filed by path, then method, then `where`: what a call finds does not grow
 * with the set.
 */
import { foldPath, type PathPattern } from '../path.js'
import type { CompiledRule } from './compiled.js'
import type { Facts } from './facts.js'
import { PathTrie } from './path-trie.js'
import { WhereIndex } from './where-index.js'

/** The rules of one path pattern while they are gathered. */
interface Gathered {
  readonly anyMethod: CompiledRule[]
  readonly byMethod: Map<string, CompiledRule[]>
}

/** The same, indexed. */
class MethodIndex {
  readonly #anyMethod: WhereIndex
  readonly #byMethod: ReadonlyMap<string, WhereIndex>

  constructor({ anyMethod, byMethod }: Gathered) {
    this.#anyMethod = new WhereIndex(anyMethod)
    this.#byMethod = new Map(
      [...byMethod].map(([method, rules]) => [method, new WhereIndex(rules)]),
    )
  }

  find(facts: Facts, found: CompiledRule[]): void {
    this.#anyMethod.find(facts, found)
    if (facts.method === undefined || this.#byMethod.size === 0) return
    this.#byMethod.get(facts.method)?.find(facts, found)
  }

  heaviest(weightOf: (rule: CompiledRule) => number): number {
    const perMethod = [...this.#byMethod.values()].map((index) => index.heaviest(weightOf))
    return this.#anyMethod.heaviest(weightOf) + Math.max(0, ...perMethod)
  }
}

/** All rules of one path pattern; indexed once all are gathered. */
interface Leaf {
  readonly gathered: Gathered
  /** The rules themselves, where none has more conditions than its path: most are like that. */
  plain: readonly CompiledRule[] | undefined
  index: MethodIndex | undefined
}

/** Beyond this many overlapping patterns the most that can meet is not worked out but refused. */
const OVERLAPS_MAX = 200_000

export class RuleIndex {
  readonly #anyPath: MethodIndex
  readonly #paths: PathTrie<Leaf>
  readonly #hasPaths: boolean
  /** All rules, where none has a condition to be filed under. */
  readonly #unfiled: readonly CompiledRule[] | undefined

  constructor(rules: readonly CompiledRule[], strictPaths: boolean) {
    const anyPath = gather()
    const withPath: Leaf[] = []
    this.#paths = new PathTrie(strictPaths ? (segment) => segment : foldSegment)
    for (const rule of rules) {
      if (rule.pattern === undefined) {
        file(rule, anyPath)
        continue
      }
      const leaf = this.#paths.at(foldPattern(rule.pattern, strictPaths), () => {
        const made: Leaf = { gathered: gather(), plain: undefined, index: undefined }
        withPath.push(made)
        return made
      })
      file(rule, leaf.gathered)
    }
    const conditional = rules.some((rule) => rule.pattern !== undefined || !isPlain(rule))
    this.#unfiled = conditional ? undefined : rules
    this.#anyPath = new MethodIndex(anyPath)
    this.#hasPaths = withPath.length > 0
    for (const leaf of withPath) {
      const { anyMethod, byMethod } = leaf.gathered
      const plain = byMethod.size === 0 && anyMethod.every(isPlain)
      leaf.plain = plain ? anyMethod : undefined
      leaf.index = new MethodIndex(leaf.gathered)
    }
  }

  /**
   * Every rule whose path and method hold and whose filed condition does, in the order of the set.
   */
  find(facts: Facts): readonly CompiledRule[] {
    if (this.#unfiled !== undefined) return this.#unfiled
    const found: CompiledRule[] = []
    this.#anyPath.find(facts, found)
    if (this.#hasPaths && facts.path !== undefined) {
      const leaves: Leaf[] = []
      this.#paths.find(facts.path, leaves)
      for (const leaf of leaves) {
        if (leaf.plain === undefined) leaf.index?.find(facts, found)
        else found.push(...leaf.plain)
      }
    }
    return inOrder(found)
  }

  /**
   * The most limits that one call could meet; undefined where the patterns overlap beyond working
   * out.
   */
  heaviest(weightOf: (rule: CompiledRule) => number): number | undefined {
    const withPath = this.#paths.heaviest(
      (leaves) => leaves.reduce((sum, leaf) => sum + (leaf.index?.heaviest(weightOf) ?? 0), 0),
      OVERLAPS_MAX,
    )
    return withPath === undefined ? undefined : withPath + this.#anyPath.heaviest(weightOf)
  }
}

/** By insertion: the few rules that one call meets come from lists that are in order already. */
function inOrder(found: CompiledRule[]): readonly CompiledRule[] {
  for (let i = 1; i < found.length; i++) {
    const rule = found[i]
    if (rule === undefined) continue
    let at = i
    for (; at > 0; at--) {
      const before = found[at - 1]
      if (before === undefined || before.order < rule.order) break
      found[at] = before
    }
    found[at] = rule
  }
  return found
}

/** Whether a rule has no condition but its path. */
function isPlain(rule: CompiledRule): boolean {
  return rule.methods === undefined && rule.conditions.length === 0
}

function gather(): Gathered {
  return { anyMethod: [], byMethod: new Map() }
}

function file(rule: CompiledRule, gathered: Gathered): void {
  if (rule.methods === undefined) {
    gathered.anyMethod.push(rule)
    return
  }
  for (const method of rule.methods) {
    const rules = gathered.byMethod.get(method)
    if (rules === undefined) gathered.byMethod.set(method, [rule])
    else rules.push(rule)
  }
}

function foldSegment(segment: string): string {
  return segment.toLowerCase()
}

/** A pattern's own trailing slash means nothing unless paths are strict. */
function foldPattern(pattern: PathPattern, strictPaths: boolean): PathPattern {
  const last = pattern.segments.at(-1)
  const trailing = last !== undefined && 'literal' in last && last.literal === ''
  if (strictPaths || pattern.wildcard || !trailing || pattern.segments.length === 1) return pattern
  return { ...pattern, segments: pattern.segments.slice(0, -1), text: foldPath(pattern.text) }
}
