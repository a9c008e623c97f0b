/**
 * All rules of a set, filed by path, then method, then `where`: what a call finds does not grow
 * with the set.
 */
import { foldPath, type PathPattern } from '../path.js'
import type { Filed } from './compiled.js'
import type { Facts } from './facts.js'
import { PathTrie } from './path-trie.js'
import { WhereIndex } from './where-index.js'

/** The rules of one path pattern while they are gathered. */
interface Gathered<Rule> {
  readonly anyMethod: Rule[]
  readonly byMethod: Map<string, Rule[]>
}

/** The same, indexed. */
class MethodIndex<Rule extends Filed> {
  readonly #anyMethod: WhereIndex<Rule>
  readonly #byMethod: ReadonlyMap<string, WhereIndex<Rule>>

  constructor({ anyMethod, byMethod }: Gathered<Rule>) {
    this.#anyMethod = new WhereIndex(anyMethod)
    this.#byMethod = new Map(
      [...byMethod].map(([method, rules]) => [method, new WhereIndex(rules)]),
    )
  }

  find(facts: Facts, found: Rule[]): void {
    this.#anyMethod.find(facts, found)
    if (facts.method === undefined || this.#byMethod.size === 0) return
    this.#byMethod.get(facts.method)?.find(facts, found)
  }
}

/** What a path pattern leads to: mostly one rule that asks for nothing else. */
type Leaf<Rule extends Filed> = Rule | MethodIndex<Rule>

export class RuleIndex<Rule extends Filed> {
  readonly #anyPath: MethodIndex<Rule>
  readonly #paths: PathTrie<Leaf<Rule>>
  readonly #hasPaths: boolean
  /** All rules, where none has a condition to be filed under. */
  readonly #unfiled: readonly Rule[] | undefined

  constructor(rules: readonly Rule[], strictPaths: boolean) {
    const anyPath = gather<Rule>()
    const byPath = new PathTrie<Gathered<Rule>>(strictPaths ? asIs : foldSegment)
    const patterns = new Map<Gathered<Rule>, PathPattern>()
    for (const rule of rules) {
      if (rule.pattern === undefined) {
        file(rule, anyPath)
        continue
      }
      const pattern = foldPattern(rule.pattern, strictPaths)
      const gathered = byPath.at(pattern, gather<Rule>)
      patterns.set(gathered, pattern)
      file(rule, gathered)
    }
    const conditional = rules.some((rule) => rule.pattern !== undefined || !isPlain(rule))
    this.#unfiled = conditional ? undefined : rules
    this.#anyPath = new MethodIndex(anyPath)
    this.#hasPaths = patterns.size > 0
    this.#paths = new PathTrie(strictPaths ? asIs : foldSegment)
    for (const [gathered, pattern] of patterns) this.#paths.at(pattern, () => leafOf(gathered))
  }

  /**
   * Every rule whose path and method hold and whose filed condition does, in the order of the set.
   */
  find(facts: Facts): readonly Rule[] {
    if (this.#unfiled !== undefined) return this.#unfiled
    const found: Rule[] = []
    this.#anyPath.find(facts, found)
    if (this.#hasPaths && facts.path !== undefined) {
      const leaves: Leaf<Rule>[] = []
      this.#paths.find(facts.path, leaves)
      for (const leaf of leaves) {
        if (leaf instanceof MethodIndex) leaf.find(facts, found)
        else found.push(leaf)
      }
    }
    return inOrder(found)
  }
}

/** By insertion: the few rules that one call meets come from lists that are in order already. */
function inOrder<Rule extends Filed>(found: Rule[]): readonly Rule[] {
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
function isPlain(rule: Filed): boolean {
  return rule.methods === undefined && rule.conditions.length === 0
}

function leafOf<Rule extends Filed>(gathered: Gathered<Rule>): Leaf<Rule> {
  const [only, ...others] = gathered.anyMethod
  const isAlone = others.length === 0 && gathered.byMethod.size === 0
  return only !== undefined && isAlone && isPlain(only) ? only : new MethodIndex(gathered)
}

function gather<Rule>(): Gathered<Rule> {
  return { anyMethod: [], byMethod: new Map() }
}

function file<Rule extends Filed>(rule: Rule, gathered: Gathered<Rule>): void {
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

function asIs(segment: string): string {
  return segment
}

export function foldSegment(segment: string): string {
  return segment.toLowerCase()
}

/** A pattern's own trailing slash means nothing unless paths are strict. */
export function foldPattern(pattern: PathPattern, strictPaths: boolean): PathPattern {
  const last = pattern.segments.at(-1)
  const trailing = last !== undefined && 'literal' in last && last.literal === ''
  if (strictPaths || pattern.wildcard || !trailing || pattern.segments.length === 1) return pattern
  return { ...pattern, segments: pattern.segments.slice(0, -1), text: foldPath(pattern.text) }
}
