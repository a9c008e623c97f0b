/**
 * How many limits one call could meet, of rules that come and go one by one: what a rule does not
 * touch is not worked out again. Filed as `RuleIndex` files them to be found.
 */
import type { PathPattern } from '../path.js'
import type { Condition, IndexedRule } from './compiled.js'
import { foldPattern, foldSegment } from './rule-index.js'

/** Beyond this many overlapping patterns the most that can meet is not worked out but refused. */
const OVERLAPS_MAX = 200_000

export interface RuleWeight extends Pick<IndexedRule, 'pattern' | 'methods' | 'filedUnder'> {
  /** Limits that a call meets with the rule. */
  readonly weight: number
}

/** Values that exclude each other, such as those of one attribute: a call has the heaviest. */
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
    // It may have been the only one so heavy.
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
  /** By attribute, and by the length of a network. Undefined in most. */
  #filed: Map<string, ExclusiveWeights> | undefined

  add(filedUnder: Condition | undefined, weight: number): void {
    if (filedUnder?.values !== undefined) {
      const values = this.valueWeights(filedUnder.attribute)
      for (const value of filedUnder.values) values.add(value, weight)
    } else if (filedUnder?.cidrs !== undefined) {
      // No name of an attribute has a space.
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

/** A place in a trie over path segments, see `PathTrie`. */
interface Node {
  literals: Map<string, Node> | undefined
  param: Node | undefined
  exact: PatternWeights | undefined
  wildcard: PatternWeights | undefined
  /** Rules whose pattern leads here or through here. */
  rules: number
  /** Which change was the last to one of them. */
  changedAt: number
  /** What was worked out last of paths that lead here, until one of those rules changes. */
  reach: Reach | undefined
}

interface Reach {
  readonly heaviest: number
  /** How many sets of places there are to look at. */
  readonly states: number
  /** The other places that the paths lead to, as they were at a change. */
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

  /** One that was added, as it was added. */
  remove(ruleWeight: RuleWeight): void {
    this.change(ruleWeight, -1)
  }

  /** The most limits that one call could meet; Infinity where patterns overlap beyond reason. */
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
      // Places that no pattern leads to are none.
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
 * What a path can meet from these places on, all of which its beginning leads to; undefined where
 * there are more sets of places than are left to look at.
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

/** What was worked out of these very places, none of which changed since. */
function knownReach(nodes: readonly Node[]): Reach | undefined {
  const known = nodes[0]?.reach
  if (known?.beside.length !== nodes.length - 1) return undefined
  const { beside, asOf } = known
  const isSame = beside.every((node, i) => node === nodes[i + 1] && node.changedAt <= asOf)
  return isSame ? known : undefined
}

/** Where one more segment leads: one that is no literal of these, and each literal. */
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
