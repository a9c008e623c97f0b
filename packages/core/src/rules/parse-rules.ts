/** Rules from text or from objects: checked as a whole, with every problem told of at once. */
import { LIMITS_PER_CALL_MAX, mostLimitsPerCall } from '../matching/overlap.js'
import { checkShares } from './check-share.js'
import { type AttributeOrigins, warnOfFreeCost } from './cost-warning.js'
import { readDocument } from './document.js'
import { type KnownRule, LastSet } from './last-set.js'
import { checkCost, type PlacedRule, readRule, spotOfRule } from './parse-rule.js'
import { readRoutes } from './parse-routes.js'
import {
  type Collector,
  createCollector,
  type Finding,
  isWarning,
  type Problem,
} from './problems.js'
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
import { type Known, ObjectNode, PARTS_MAX, readValue } from './value.js'
import { warnOfRule } from './warnings.js'
import { warnOfSet } from './set-warnings.js'

export const RULES_MAX = 10_000

interface ParseOptions extends AttributeOrigins {
  /** Named in messages. */
  readonly file?: string | undefined
  /** Warnings are errors. */
  readonly strict?: boolean | undefined
  /**
   * Whether a rule that is the very object that an earlier call found no error in is taken as it
   * was read then: of 10,000 rules one that changed is read, and the others only looked at beside
   * each other. False for objects that may have been changed in place. @default true
   */
  readonly reuse?: boolean | undefined
  /**
   * Whether rules are compared with each other for what is probably not meant, which takes longer
   * than all else where one of 10,000 changed. @default true
   */
  readonly compare?: boolean | undefined
  /**
   * Ids of the rules whose warnings are wanted: only they are compared with all others, and no
   * others' are told. @default all
   */
  readonly warnOf?: ReadonlySet<string> | undefined
}

/** Rules that were read from objects without an error, as long as those live. */
const readBefore = new WeakMap<object, ReadBefore>()
interface ReadBefore extends KnownRule {
  readonly warnings: readonly Finding[]
}
const known: Known = (object) => readBefore.get(object)?.extent
const lastSet = new LastSet((object) => readBefore.get(object), RULES_MAX)

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
  if (typeof source === 'string') {
    // Editors of one system begin a file with a mark that is no part of the first line.
    const text = source.replace(/^\ufeff/, '')
    return parseTree(readDocument(text), { ...options, reuse: false }, { text })
  }
  const { reuse = true } = options
  if (!reuse) return parseTree(readValue(source), options)
  return (
    parseChange(source, options) ??
    parseTree(readValue(source, known), options, {
      all(read) {
        const rules = rulesOf(read)
        lastSet.take(read.flatMap(objectOf), rules)
        return rules
      },
    })
  )
}

function rulesOf(read: readonly PlacedRule[]): readonly Rule[] {
  return read.map(({ rule }) => rule)
}

function objectOf({ map: { node } }: PlacedRule): object | [] {
  return node instanceof ObjectNode ? node.object : []
}

/** Of a set that differs little from the last, what differs; undefined where all has to be read. */
function parseChange(source: object, options: ParseOptions): ParsedRules | undefined {
  const { compare = true, warnOf } = options
  if (compare && warnOf === undefined) return undefined
  const change = lastSet.changeOf(source, warnOf)
  if (change === undefined) return undefined
  const tree = readValue(change.source, known)
  const parts = tree.root instanceof ObjectNode ? tree.root.extent.parts + 1 : PARTS_MAX
  let isWhole = false
  const parsed = parseTree(tree, options, {
    all(read) {
      const rules = change.finish(rulesOf(read), parts)
      isWhole = rules !== undefined
      return rules
    },
  })
  return isWhole ? parsed : undefined
}

/** All rules of the set, given those that were read without an error. */
type All = (read: readonly PlacedRule[]) => readonly Rule[] | undefined

function parseTree(
  tree: Tree,
  options: ParseOptions,
  { text, all }: { readonly text?: string; readonly all?: All } = {},
): ParsedRules {
  const { file, strict = false, reuse = true, compare = true, warnOf } = options
  const { fromHeaders, trusted } = options
  const collector = createCollector({ file, strict, text })
  const report = warnOf === undefined ? collector.report : reportOf(collector, warnOf)
  const rules = readTree(tree, {
    ...collector,
    report,
    reuse,
    compare,
    warnOf,
    all,
    origins: { fromHeaders, trusted },
  })
  const { errors, warnings } = collector.finish()
  return { rules: errors.length === 0 ? rules : undefined, errors, warnings }
}

interface Parsing extends Collector {
  readonly reuse: boolean
  readonly compare: boolean
  readonly warnOf: ReadonlySet<string> | undefined
  readonly all: All | undefined
  readonly origins: AttributeOrigins
}

function reportOf({ report }: Collector, warnOf: ReadonlySet<string>): Collector['report'] {
  return (finding) => {
    return isWarning(finding) && !warnOf.has(finding.rule ?? '') ? undefined : report(finding)
  }
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
    const placed = (parsing.reuse ? readAgain(item) : undefined) ?? readAlone(item, parsing)
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
  }
  return rules
}

/** A rule that was read before. */
function readAgain({ node, report }: Spot): PlacedRule | undefined {
  if (!(node instanceof ObjectNode)) return undefined
  const before = readBefore.get(node.object)
  if (before === undefined) return undefined
  const { extent } = node
  if (extent.depth > before.extent.depth) readBefore.set(node.object, { ...before, extent })
  for (const warning of before.warnings) report(warning)
  return { rule: before.rule, map: spotOfRule<MapNode>(node, before.rule.id, report) }
}

/** A rule with all that can be said of it by itself. */
function readAlone(item: Spot, { errorCount, reuse }: Parsing): PlacedRule | undefined {
  const { node, field } = item
  const before = errorCount()
  const told: Finding[] = []
  const report: Spot['report'] = (finding) => {
    told.push(finding)
    return item.report(finding)
  }
  const placed = readRule({ node, field, report })
  if (placed === undefined) return undefined
  if (errorCount() === before) checkCost(placed)
  if (errorCount() === before) checkShares(placed)
  if (errorCount() === before) warnOfRule(placed)
  if (reuse && errorCount() === before && node instanceof ObjectNode) {
    // A copy: what is said of it beside others comes later, and is of that set alone.
    readBefore.set(node.object, { rule: placed.rule, extent: node.extent, warnings: [...told] })
  }
  return placed
}

function finishSet(placed: PlacedSet, parsing: Parsing): RuleSet | undefined {
  const { routes, strictPaths } = placed
  const { compare, reuse, warnOf, all = rulesOf } = parsing
  // A rule that could not be read may be the very one that another seems to lack.
  if (parsing.errorCount() > 0) return undefined
  const rules = all(placed.rules)
  if (rules === undefined) return undefined
  const set = { routes, strictPaths, rules }
  if (compare) {
    const asked = placed.rules.filter(({ rule }) => warnOf?.has(rule.id) ?? true)
    warnOfSet(rules, asked, strictPaths)
    // Of each rule by itself, but not remembered with it: another node may know other headers.
    for (const each of asked) warnOfFreeCost(each, parsing.origins)
  }
  const most = mostLimitsPerCall(set, { reuse })
  if (most > LIMITS_PER_CALL_MAX) {
    parsing.report({
      code: 'too-many-limits',
      at: -1,
      field: 'rules',
      found: most === Infinity ? 'more limits than can be worked out' : `${most} limits`,
      accepted: `rules of which one call can meet ${LIMITS_PER_CALL_MAX} limits at most`,
    })
  }
  return set
}
