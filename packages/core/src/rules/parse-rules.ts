/** Rules from text or from objects: checked as a whole, with every problem told of at once. */
import { LIMITS_PER_CALL_MAX, mostLimitsPerCall } from '../matching/overlap.js'
import { readDocument } from './document.js'
import { checkCost, type PlacedRule, readRule, spotOfRule } from './parse-rule.js'
import { readRoutes } from './parse-routes.js'
import { type Collector, createCollector, type Problem } from './problems.js'
import {
  complain,
  DOCUMENT,
  fieldOf,
  itemsOf,
  readBoolean,
  readList,
  readMap,
  readOptional,
  readRequired,
  type Spot,
} from './reader.js'
import type { Rule, RuleSet } from './rule.js'
import type { MapNode, Tree } from './tree.js'
import { type Extent, type Known, ObjectNode, readValue } from './value.js'
import { warnOfRule } from './warnings.js'
import { warnOfSet } from './set-warnings.js'

export const RULES_MAX = 10_000

interface ParseOptions {
  /** Named in messages. */
  readonly file?: string | undefined
  /** Warnings are errors. */
  readonly strict?: boolean | undefined
  /**
   * Whether a rule that is the very object that an earlier call found no problem with is taken as
   * it was read then: of 10,000 rules one that changed is read, and the others only looked at
   * beside each other. False for objects that may have been changed in place. @default true
   */
  readonly reuse?: boolean | undefined
  /**
   * Whether rules are compared with each other for what is probably not meant, which takes longer
   * than all else where one of 10,000 changed. @default true
   */
  readonly compare?: boolean | undefined
}

/** Rules that were read from objects without a problem, as long as those live. */
const readBefore = new WeakMap<object, { readonly rule: Rule; readonly extent: Extent }>()
const known: Known = (object) => readBefore.get(object)?.extent

/** Plain data: it can be sent from one thread to another. */
export interface ParsedRules {
  /** Undefined if there are errors: a set is taken whole or not at all. */
  readonly rules: RuleSet | undefined
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/**
 * `source` is YAML or JSON text, or the same as objects: a list of rules, or a map of `routes`,
 * `strictPaths` and `rules`. Never throws; problems with objects have no line and column.
 */
export function parseRules(source: string | object, options: ParseOptions = {}): ParsedRules {
  const isText = typeof source === 'string'
  // Editors of one system begin a file with a mark that is no part of the first line.
  const text = isText ? source.replace(/^\ufeff/, '') : undefined
  const collector = createCollector({ file: options.file, strict: options.strict ?? false, text })
  const reuse = options.reuse ?? true
  const tree =
    text === undefined ? readValue(source, reuse ? known : undefined) : readDocument(text)
  const compare = options.compare ?? true
  const rules = readTree(tree, { ...collector, reuse, compare })
  const { errors, warnings } = collector.finish()
  return { rules: errors.length === 0 ? rules : undefined, errors, warnings }
}

interface Parsing extends Collector {
  readonly reuse: boolean
  readonly compare: boolean
}

function readTree(tree: Tree, collector: Parsing): RuleSet | undefined {
  const { report } = collector
  if (tree.root === undefined) {
    for (const problem of tree.problems) report({ field: DOCUMENT, ...problem })
    return undefined
  }
  const root: Spot = { node: tree.root, field: DOCUMENT, report }
  if (tree.root.kind === 'list') {
    const rules = readRuleList({ ...root, field: 'rules' }, collector)
    return finishSet({ routes: [], strictPaths: false, rules }, collector)
  }
  const map =
    tree.root.kind === 'map' ? readMap(root, ['routes', 'strictPaths', 'rules']) : undefined
  const accepted = 'a list of rules, or a map with rules; "rules: []" for none'
  if (map === undefined) return complain(root, 'wrong-type', { accepted })
  const strictPaths = readOptional(map, 'strictPaths', readBoolean) ?? false
  const routes = readOptional(map, 'routes', (field) => readRoutes(field, strictPaths)) ?? []
  const rules =
    readRequired(map, 'rules', {
      accepted: 'a list of rules; [] for none',
      read: (field) => readRuleList(field, collector),
    }) ?? []
  return finishSet({ routes, strictPaths, rules }, collector)
}

interface PlacedSet extends Pick<RuleSet, 'routes' | 'strictPaths'> {
  readonly rules: readonly PlacedRule[]
}

function readRuleList(spot: Spot, parsing: Parsing): readonly PlacedRule[] {
  const list = readList(spot, { of: 'rules', most: RULES_MAX })
  if (list === undefined) return []
  const rules: PlacedRule[] = []
  const fieldById = new Map<string, string>()
  for (const item of itemsOf(list)) {
    const before = parsing.count()
    const again = parsing.reuse ? readAgain(item) : undefined
    const placed = again ?? readAlone(item, parsing)
    if (placed === undefined) continue
    const { id } = placed.rule
    const why = fieldById.get(id)
    if (why !== undefined && id !== '') {
      complain(fieldOf(placed.map, 'id') ?? placed.map, 'duplicate-id', {
        why,
        accepted: 'an id of its own for each rule',
      })
    }
    fieldById.set(id, item.field)
    rules.push(placed)
    const { node } = item
    const isGood = again === undefined && parsing.count() === before
    if (parsing.reuse && isGood && node instanceof ObjectNode) {
      readBefore.set(node.object, { rule: placed.rule, extent: node.extent })
    }
  }
  return rules
}

/** A rule that was read before, at a place of the same depth. */
function readAgain({ node, report }: Spot): PlacedRule | undefined {
  if (!(node instanceof ObjectNode)) return undefined
  const before = readBefore.get(node.object)
  if (before === undefined) return undefined
  return { rule: before.rule, map: spotOfRule<MapNode>(node, before.rule.id, report) }
}

/** A rule with all that can be said of it by itself. */
function readAlone(item: Spot, { errorCount }: Collector): PlacedRule | undefined {
  const before = errorCount()
  const placed = readRule(item)
  if (placed === undefined) return undefined
  if (errorCount() === before) checkCost(placed)
  if (errorCount() === before) warnOfRule(placed)
  return placed
}

function finishSet({ routes, strictPaths, rules }: PlacedSet, collector: Parsing): RuleSet {
  const set = { routes, strictPaths, rules: rules.map(({ rule }) => rule) }
  // A rule that could not be read may be the very one that another seems to lack.
  if (collector.errorCount() > 0) return set
  if (collector.compare) warnOfSet(rules, strictPaths)
  const most = mostLimitsPerCall(set)
  if (most > LIMITS_PER_CALL_MAX) {
    collector.report({
      code: 'too-many-limits',
      at: -1,
      field: 'rules',
      found: most === Infinity ? 'more limits than can be worked out' : `${most} limits`,
      accepted: `rules of which one call can meet ${LIMITS_PER_CALL_MAX} limits at most`,
    })
  }
  return set
}
