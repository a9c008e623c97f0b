/**
 * Computes how many limits one call could match while rules are added and removed one by one; parts
 * that a rule does not affect are not recomputed. Rules are indexed as in `RuleIndex`.
 */
import type { PathPattern } from '../path.js'
import type { Condition, IndexedRule } from './compiled.js'
import { foldPattern, foldSegment } from './rule-index.js'

/** With more overlapping patterns the maximum is not computed and the set is refused. */
const OVERLAPS_MAX = 200_000

export interface RuleWeight extends Pick<IndexedRule, 'pattern' | 'methods' | 'filedUnder'> {
  /** The limits that a call matches with the rule. */
  readonly weight: number
}

/** Mutually exclusive values, such as those of one attribute; the heaviest one counts. */
class ExclusiveWeights {
  readonly #weights = new Map<string, number>()
  #heaviest: number | undefined = 0

  add(value: string, weight: number): void {
    const before = this.#weights.get(value) ?? 0
    const after = before + weight
    if (after === 0) this.#weights.delete(value)
    else this.#weights.set(value, after)
    if (this.#heaviest === undefined) return
    if (after >= this.#heaviest) this.#heaviest = after
    // It may have been the heaviest one.
    else if (before === this.#heaviest) this.#heaviest = undefined
  }

  get heaviest(): number {
    if (this.#heaviest === undefined) {
      this.#heaviest = 0
      for (const weight of this.#weights.values()) {
        if (weight > this.#heaviest) this.#heaviest = weight
      }
    }
    return this.#heaviest
  }
}

/** Rules of one path and method. */
class WhereWeights {
  #always = 0
  /** By attribute, and by the length of a network; usually undefined. */
  #filed: Map<string, ExclusiveWeights> | undefined

  add(filedUnder: Condition | undefined, weight: number): void {
    if (filedUnder?.values !== undefined) {
      const values = this.valueWeights(filedUnder.attribute)
      for (const value of filedUnder.values) values.add(value, weight)
    } else if (filedUnder?.cidrs !== undefined) {
      // Attribute names have no spaces.
      for (const { version, bits, text } of filedUnder.cidrs) {
        this.valueWeights(`${version} ${bits}`).add(text, weight)
      }
    } else {
      this.#always += weight
    }
  }

  get heaviest(): number {
    let total = this.#always
    for (const values of this.#filed?.values() ?? []) total += values.heaviest
    return total
  }

  private valueWeights(name: string): ExclusiveWeights {
    this.#filed ??= new Map()
    let values = this.#filed.get(name)
    if (values === undefined) this.#filed.set(name, (values = new ExclusiveWeights()))
    return values
  }
}

/** Rules of one path pattern. */
class PatternWeights {
  readonly #anyMethod = new WhereWeights()
  #byMethod: Map<string, WhereWeights> | undefined
  #heaviest: number | undefined

  add({ methods, filedUnder }: RuleWeight, weight: number): void {
    this.#heaviest = undefined
    if (methods === undefined) this.#anyMethod.add(filedUnder, weight)
    for (const method of methods ?? []) this.methodWeights(method).add(filedUnder, weight)
  }

  get heaviest(): number {
    if (this.#heaviest === undefined) {
      let ofMethod = 0
      for (const weights of this.#byMethod?.values() ?? []) {
        ofMethod = Math.max(ofMethod, weights.heaviest)
      }
      this.#heaviest = this.#anyMethod.heaviest + ofMethod
    }
    return this.#heaviest
  }

  private methodWeights(method: string): WhereWeights {
    this.#byMethod ??= new Map()
    let weights = this.#byMethod.get(method)
    if (weights === undefined) this.#byMethod.set(method, (weights = new WhereWeights()))
    return weights
  }
}

/** A node of a trie over path segments, see `PathTrie`. */
interface Node {
  literals: Map<string, Node> | undefined
  param: Node | undefined
  exact: PatternWeights | undefined
  wildcard: PatternWeights | undefined
  /** Rules whose pattern leads here or through here. */
  rules: number
  /** The number of the last change to one of them. */
  changedAt: number
  /** The last result for paths that lead here, valid until one of those rules changes. */
  reach: Reach | undefined
}

interface Reach {
  readonly heaviest: number
  /** The number of node sets to visit. */
  readonly states: number
  /** The other nodes that the paths lead to, as of a change. */
  readonly beside: readonly Node[]
  readonly asOf: number
}

export class LimitWeights {
  readonly #strictPaths: boolean
  readonly #anyPath = new PatternWeights()
  readonly #root = emptyNode()
  #changes = 0

  constructor(strictPaths: boolean) {
    this.#strictPaths = strictPaths
  }

  add(ruleWeight: RuleWeight): void {
    this.change(ruleWeight, 1)
  }

  /** Removes a rule that was added with the same weight. */
  remove(ruleWeight: RuleWeight): void {
    this.change(ruleWeight, -1)
  }

  /** Returns the most limits that one call could match; Infinity if too many patterns overlap. */
  maxLimits(): number {
    const reach = reachOf([this.#root], { left: OVERLAPS_MAX, asOf: this.#changes })
    return reach === undefined ? Infinity : reach.heaviest + this.#anyPath.heaviest
  }

  private change(ruleWeight: RuleWeight, sign: 1 | -1): void {
    const { pattern, weight } = ruleWeight
    this.#changes++
    const weights = pattern === undefined ? this.#anyPath : this.patternWeights(pattern, sign)
    weights.add(ruleWeight, sign * weight)
  }

  private patternWeights(unfolded: PathPattern, sign: 1 | -1): PatternWeights {
    const pattern = foldPattern(unfolded, this.#strictPaths)
    let node = this.#root
    this.touch(node, sign)
    for (const segment of pattern.segments) {
      const parent = node
      if ('param' in segment) {
        node = parent.param ??= emptyNode()
        this.touch(node, sign)
        if (node.rules === 0) parent.param = undefined
        continue
      }
      const literal = this.#strictPaths ? segment.literal : foldSegment(segment.literal)
      parent.literals ??= new Map()
      node = parent.literals.get(literal) ?? emptyNode()
      this.touch(node, sign)
      // Nodes that no pattern leads to are skipped.
      if (node.rules === 0) parent.literals.delete(literal)
      else parent.literals.set(literal, node)
    }
    if (pattern.wildcard) return (node.wildcard ??= new PatternWeights())
    return (node.exact ??= new PatternWeights())
  }

  private touch(node: Node, sign: 1 | -1): void {
    node.rules += sign
    node.changedAt = this.#changes
    node.reach = undefined
  }
}

function emptyNode(): Node {
  return {
    literals: undefined,
    param: undefined,
    exact: undefined,
    wildcard: undefined,
    rules: 0,
    changedAt: 0,
    reach: undefined,
  }
}

/**
 * Returns what a path can match from these nodes on, all of which its prefix leads to; undefined if
 * there are more node sets than the budget allows.
 */
function reachOf(
  nodes: readonly Node[],
  budget: { left: number; readonly asOf: number },
): Reach | undefined {
  const known = knownReach(nodes)
  budget.left -= known?.states ?? 1
  if (budget.left < 0) return undefined
  if (known !== undefined) return known
  let exact = 0
  let wildcard = 0
  const params: Node[] = []
  for (const node of nodes) {
    exact += node.exact?.heaviest ?? 0
    wildcard += node.wildcard?.heaviest ?? 0
    if (node.param !== undefined) params.push(node.param)
  }
  let deeper = 0
  let states = 1
  for (const next of nextOf(nodes, params)) {
    const reach = reachOf(next, budget)
    if (reach === undefined) return undefined
    deeper = Math.max(deeper, reach.heaviest)
    states += reach.states
  }
  const [first, ...beside] = nodes
  const heaviest = Math.max(exact, wildcard + deeper)
  const reach = { heaviest, states, beside, asOf: budget.asOf }
  if (first !== undefined) first.reach = reach
  return reach
}

/** Returns the cached result for exactly these nodes, if none of them changed since. */
function knownReach(nodes: readonly Node[]): Reach | undefined {
  const known = nodes[0]?.reach
  if (known?.beside.length !== nodes.length - 1) return undefined
  const { beside, asOf } = known
  const isSame = beside.every((node, i) => node === nodes[i + 1] && node.changedAt <= asOf)
  return isSame ? known : undefined
}

/** Yields where one more segment leads: a segment that is no literal here, then each literal. */
function* nextOf(nodes: readonly Node[], params: readonly Node[]): Iterable<readonly Node[]> {
  if (params.length > 0) yield params
  const [only, ...others] = nodes
  if (others.length === 0) {
    for (const node of only?.literals?.values() ?? []) yield [node, ...params]
    return
  }
  const literals = new Set(nodes.flatMap((node) => [...(node.literals?.keys() ?? [])]))
  for (const literal of literals) {
    yield [...nodes.flatMap((node) => node.literals?.get(literal) ?? []), ...params]
  }
}
