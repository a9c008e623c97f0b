/**
 * Indexes all rules of a set by path, then method, then `where`, so that a lookup does not grow
 * with the set.
 */
import { foldPath, type PathPattern } from '../path.js'
import type { IndexedRule } from './compiled.js'
import type { NormalizedCall } from './call-view.js'
import { PathTrie } from './path-trie.js'
import { WhereIndex } from './where-index.js'

/** The rules of one path pattern while the index is built. */
interface RuleGroup<Rule> {
  readonly anyMethod: Rule[]
  readonly byMethod: Map<string, Rule[]>
}

/** The rules of one path pattern, indexed by method. */
class MethodIndex<Rule extends IndexedRule> {
  readonly #anyMethod: WhereIndex<Rule>
  readonly #byMethod: ReadonlyMap<string, WhereIndex<Rule>>

  constructor({ anyMethod, byMethod }: RuleGroup<Rule>) {
    this.#anyMethod = new WhereIndex(anyMethod)
    this.#byMethod = new Map(
      [...byMethod].map(([method, rules]) => [method, new WhereIndex(rules)]),
    )
  }

  find(view: NormalizedCall, found: Rule[]): void {
    this.#anyMethod.find(view, found)
    if (view.method === undefined || this.#byMethod.size === 0) return
    this.#byMethod.get(view.method)?.find(view, found)
  }
}

/** The value of a path pattern: usually one rule without other conditions. */
type Leaf<Rule extends IndexedRule> = Rule | MethodIndex<Rule>

export class RuleIndex<Rule extends IndexedRule> {
  readonly #anyPath: MethodIndex<Rule>
  readonly #paths: PathTrie<Leaf<Rule>>
  readonly #hasPaths: boolean
  /** All rules, if none has a condition to be indexed by. */
  readonly #unfiled: readonly Rule[] | undefined

  constructor(rules: readonly Rule[], strictPaths: boolean) {
    const anyPath = emptyGroup<Rule>()
    const byPath = new PathTrie<RuleGroup<Rule>>(strictPaths ? identity : foldSegment)
    const patterns = new Map<RuleGroup<Rule>, PathPattern>()
    for (const rule of rules) {
      if (rule.pattern === undefined) {
        file(rule, anyPath)
        continue
      }
      const pattern = foldPattern(rule.pattern, strictPaths)
      const group = byPath.getOrCreate(pattern, emptyGroup<Rule>)
      patterns.set(group, pattern)
      file(rule, group)
    }
    const conditional = rules.some((rule) => rule.pattern !== undefined || !isUnconditional(rule))
    this.#unfiled = conditional ? undefined : rules
    this.#anyPath = new MethodIndex(anyPath)
    this.#hasPaths = patterns.size > 0
    this.#paths = new PathTrie(strictPaths ? identity : foldSegment)
    for (const [group, pattern] of patterns) this.#paths.getOrCreate(pattern, () => leafOf(group))
  }

  /** Returns every rule whose path, method and indexed condition match, in the order of the set. */
  find(view: NormalizedCall): readonly Rule[] {
    if (this.#unfiled !== undefined) return this.#unfiled
    const found: Rule[] = []
    this.#anyPath.find(view, found)
    if (this.#hasPaths && view.path !== undefined) {
      const leaves: Leaf<Rule>[] = []
      this.#paths.find(view.path, leaves)
      for (const leaf of leaves) {
        if (leaf instanceof MethodIndex) leaf.find(view, found)
        else found.push(leaf)
      }
    }
    return sortByOrder(found)
  }
}

/** Insertion sort: the few rules that match one call come from lists that are already sorted. */
function sortByOrder<Rule extends IndexedRule>(found: Rule[]): readonly Rule[] {
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
function isUnconditional(rule: IndexedRule): boolean {
  return rule.methods === undefined && rule.conditions.length === 0
}

function leafOf<Rule extends IndexedRule>(group: RuleGroup<Rule>): Leaf<Rule> {
  const [only, ...others] = group.anyMethod
  const isAlone = others.length === 0 && group.byMethod.size === 0
  return only !== undefined && isAlone && isUnconditional(only) ? only : new MethodIndex(group)
}

function emptyGroup<Rule>(): RuleGroup<Rule> {
  return { anyMethod: [], byMethod: new Map() }
}

function file<Rule extends IndexedRule>(rule: Rule, group: RuleGroup<Rule>): void {
  if (rule.methods === undefined) {
    group.anyMethod.push(rule)
    return
  }
  for (const method of rule.methods) {
    const rules = group.byMethod.get(method)
    if (rules === undefined) group.byMethod.set(method, [rule])
    else rules.push(rule)
  }
}

function identity(segment: string): string {
  return segment
}

export function foldSegment(segment: string): string {
  return segment.toLowerCase()
}

/** Drops a pattern's trailing slash unless paths are strict. */
export function foldPattern(pattern: PathPattern, strictPaths: boolean): PathPattern {
  const last = pattern.segments.at(-1)
  const trailing = last !== undefined && 'literal' in last && last.literal === ''
  if (strictPaths || pattern.wildcard || !trailing || pattern.segments.length === 1) return pattern
  return { ...pattern, segments: pattern.segments.slice(0, -1), text: foldPath(pattern.text) }
}
