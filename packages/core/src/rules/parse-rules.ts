/** Parses rules from text or objects: checks the whole set and reports every problem at once. */
import { MatchCache } from '../matching/match-cache.js'
import { LIMITS_PER_CALL_MAX, maxLimitsPerCall } from '../matching/max-limits-per-call.js'
import { checkShares } from './check-share.js'
import {
  type AttributeOrigins,
  warnOfClaimedBlock,
  warnOfClaimedPriority,
  warnOfFreeCost,
} from './cost-warning.js'
import { readDocument } from './document.js'
import { LARGE_SET_MIN, type RuleCache, RULES_MAX } from './incremental-parse.js'
import { checkCost, type LocatedRule, readRule, locateRule } from './parse-rule.js'
import {
  checkHeadroom,
  checkPriorities,
  readClassify,
  readPriorities,
  readShed,
} from './parse-priorities.js'
import { checkRegions, readShares, regionsOf, warnOfRegions } from './parse-regions.js'
import { readRoutes } from './parse-routes.js'
import {
  type Diagnostics,
  createDiagnostics,
  type Diagnostic,
  isWarning,
  type Problem,
} from './diagnostics.js'
import {
  reportAt,
  DOCUMENT,
  fieldOf,
  itemsOf,
  readBoolean,
  readList,
  readMap,
  readOptional,
  readRequired,
  type Located,
} from './reader.js'
import type { Rule, RuleSet } from './rule.js'
import type { MapNode, Tree } from './tree.js'
import { type SizeLookup, ObjectNode, VALUES_MAX, readValue } from './object-tree.js'
import { warnOfRule } from './rule-warnings.js'
import { warnOfSet } from './set-warnings.js'

/** What is known of the node that uses the rules. */
export interface RuleContext extends AttributeOrigins {
  /** The names of all regions, as configured. @default those that have a share */
  readonly regions?: readonly string[] | undefined
}

interface ParseOptions extends RuleContext {
  /** Named in messages. */
  readonly file?: string | undefined
  /** Treats warnings as errors. */
  readonly strict?: boolean | undefined
  /**
   * The results of earlier calls: of 10,000 rules only a changed one is parsed. Not for objects
   * that may have been changed in place. @default none: everything is parsed
   */
  readonly cache?: RuleCache | undefined
  /**
   * Whether rules are compared with each other for likely mistakes, which takes longer than
   * everything else if one of 10,000 changed. @default true
   */
  readonly compare?: boolean | undefined
  /**
   * Ids of the rules whose warnings are requested: only these are compared with all others, and
   * only their warnings are reported. @default all
   */
  readonly warnOf?: ReadonlySet<string> | undefined
}

/** Plain data, so that it can be sent between threads. */
export interface ParsedRules {
  /** Undefined if there are errors: a set is accepted whole or not at all. */
  readonly rules: RuleSet | undefined
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/**
 * `source` is YAML or JSON text, or the same as objects: a list of rules, or a map with `rules` and
 * the other fields of a set. Never throws; problems with objects have no line and column.
 */
export function parseRules(source: string | object, options: ParseOptions = {}): ParsedRules {
  if (typeof source === 'string') {
    // Skips a byte order mark, which some editors on Windows write.
    const text = source.replace(/^\ufeff/, '')
    return parseTree(readDocument(text), { ...options, cache: undefined }, { text })
  }
  const { cache } = options
  if (cache === undefined) return parseTree(readValue(source), options)
  return (
    parseChange(source, options, cache) ??
    parseTree(readValue(source, sizeLookup(cache)), options, {
      resolveRules(read) {
        const rules = rulesOf(read)
        cache.lastSet.store(read.flatMap(objectOf), rules)
        return rules
      },
    })
  )
}

function sizeLookup(cache: RuleCache): SizeLookup {
  return (object) => cache.rules.get(object)?.size
}

function rulesOf(read: readonly LocatedRule[]): readonly Rule[] {
  return read.map(({ rule }) => rule)
}

function objectOf({ map: { node } }: LocatedRule): object | [] {
  return node instanceof ObjectNode ? node.object : []
}

/**
 * Parses only the changes of a set that differs little from the last; undefined if all must be
 * parsed.
 */
function parseChange(
  source: object,
  options: ParseOptions,
  cache: RuleCache,
): ParsedRules | undefined {
  const { compare = true, warnOf } = options
  if (compare && warnOf === undefined) return undefined
  const change = cache.lastSet.partialSetOf(source, warnOf)
  if (change === undefined) return undefined
  const tree = readValue(change.source, sizeLookup(cache))
  const values = tree.root instanceof ObjectNode ? tree.root.size.values + 1 : VALUES_MAX
  let isWhole = false
  const parsed = parseTree(tree, options, {
    resolveRules(read) {
      const rules = change.finish(rulesOf(read), values)
      isWhole = rules !== undefined
      return rules
    },
  })
  return isWhole ? parsed : undefined
}

/** Returns all rules of the set, given those that were parsed without an error. */
type ResolveRules = (read: readonly LocatedRule[]) => readonly Rule[] | undefined

function parseTree(
  tree: Tree,
  options: ParseOptions,
  { text, resolveRules }: { readonly text?: string; readonly resolveRules?: ResolveRules } = {},
): ParsedRules {
  const { file, strict = false, cache, compare = true, warnOf } = options
  const { fromHeaders, trusted, regions } = options
  const diagnostics = createDiagnostics({ file, strict, text })
  const report = warnOf === undefined ? diagnostics.report : reportOf(diagnostics, warnOf)
  const rules = readTree(tree, {
    ...diagnostics,
    report,
    cache,
    compare,
    warnOf,
    resolveRules,
    origins: { fromHeaders, trusted },
    regions,
  })
  const { errors, warnings } = diagnostics.finish()
  return { rules: errors.length === 0 ? rules : undefined, errors, warnings }
}

interface Parsing extends Diagnostics {
  readonly cache: RuleCache | undefined
  readonly compare: boolean
  readonly warnOf: ReadonlySet<string> | undefined
  readonly resolveRules: ResolveRules | undefined
  readonly origins: AttributeOrigins
  readonly regions: readonly string[] | undefined
}

function reportOf({ report }: Diagnostics, warnOf: ReadonlySet<string>): Diagnostics['report'] {
  return (diagnostic) => {
    return isWarning(diagnostic) && !warnOf.has(diagnostic.rule ?? '')
      ? undefined
      : report(diagnostic)
  }
}

function readTree(tree: Tree, diagnostics: Parsing): RuleSet | undefined {
  const { report } = diagnostics
  if (tree.root === undefined) {
    for (const problem of tree.problems) report({ field: DOCUMENT, ...problem })
    return undefined
  }
  const root: Located = { node: tree.root, field: DOCUMENT, report }
  if (tree.root.kind === 'list') {
    const rules = readRuleList({ ...root, field: 'rules' }, diagnostics)
    return finishSet({ routes: [], strictPaths: false, rules }, diagnostics)
  }
  const map = tree.root.kind === 'map' ? readMap(root, SET_FIELDS) : undefined
  const accepted = 'a list of rules, or a map with rules; "rules: []" for none'
  if (map === undefined) return reportAt(root, 'wrong-type', { accepted })
  const strictPaths = readOptional(map, 'strictPaths', readBoolean) ?? false
  const routes = readOptional(map, 'routes', (field) => readRoutes(field, strictPaths)) ?? []
  const before = diagnostics.errorCount()
  const priorities = readOptional(map, 'priorities', readPriorities)
  const areValid = priorities !== undefined && diagnostics.errorCount() === before
  const classify = readOptional(map, 'classify', (field) => readClassify(field, priorities ?? []))
  const lines = fieldOf(map, 'classify')
  if (lines !== undefined && diagnostics.compare && diagnostics.errorCount() === 0) {
    warnOfClaimedPriority(lines, { classify, priorities }, diagnostics.origins)
  }
  const shed = readOptional(map, 'shed', (field) => readShed(field, priorities ?? []))
  const shares = readOptional(map, 'shares', (field) => readShares(field, diagnostics.regions))
  const rules =
    readRequired(map, 'rules', {
      accepted: 'a list of rules; [] for none',
      read: (field) => readRuleList(field, diagnostics),
    }) ?? []
  // Without other problems they are checked with those rules too that were parsed before.
  if (areValid && diagnostics.errorCount() > 0) {
    checkPriorities({ rules: rulesOf(rules), located: rules }, priorities, diagnostics.report)
  }
  return finishSet({ routes, strictPaths, priorities, classify, shed, shares, rules }, diagnostics)
}

const SET_FIELDS: readonly string[] = [
  'routes',
  'strictPaths',
  'priorities',
  'classify',
  'shed',
  'shares',
  'rules',
]

interface LocatedSet extends Omit<RuleSet, 'rules'> {
  readonly rules: readonly LocatedRule[]
}

function readRuleList(located: Located, parsing: Parsing): readonly LocatedRule[] {
  const list = readList(located, { items: 'rules', most: RULES_MAX })
  if (list === undefined) return []
  const rules: LocatedRule[] = []
  const fieldById = new Map<string, string>()
  for (const item of itemsOf(list)) {
    const placed = readCached(item, parsing.cache) ?? readUncached(item, parsing)
    if (placed === undefined) continue
    const { id } = placed.rule
    const why = fieldById.get(id)
    if (why !== undefined && id !== '') {
      reportAt(fieldOf(placed.map, 'id') ?? placed.map, 'duplicate-id', {
        why,
        accepted: 'an id of its own for each rule',
      })
    }
    fieldById.set(id, item.field)
    rules.push(placed)
  }
  return rules
}

/** Returns a rule that was parsed before. */
function readCached(
  { node, report }: Located,
  cache: RuleCache | undefined,
): LocatedRule | undefined {
  if (cache === undefined || !(node instanceof ObjectNode)) return undefined
  const before = cache.rules.get(node.object)
  if (before === undefined) return undefined
  const { size: extent } = node
  if (extent.depth > before.size.depth) cache.rules.set(node.object, { ...before, size: extent })
  for (const warning of before.warnings) report(warning)
  return { rule: before.rule, map: locateRule<MapNode>(node, before.rule.id, report) }
}

/** Parses a rule and reports all problems of the rule alone. */
function readUncached(item: Located, { errorCount, cache }: Parsing): LocatedRule | undefined {
  const { node, field } = item
  const before = errorCount()
  const reported: Diagnostic[] = []
  const report: Located['report'] = (diagnostic) => {
    reported.push(diagnostic)
    return item.report(diagnostic)
  }
  const placed = readRule({ node, field, report })
  if (placed === undefined) return undefined
  if (errorCount() === before) checkCost(placed)
  if (errorCount() === before) checkHeadroom(placed)
  if (errorCount() === before) checkShares(placed)
  if (errorCount() === before) checkRegions(placed)
  if (errorCount() === before) warnOfRule(placed)
  if (cache !== undefined && errorCount() === before && node instanceof ObjectNode) {
    // A copy: problems with other rules are added later, and belong to that set only.
    cache.rules.set(node.object, { rule: placed.rule, size: node.size, warnings: [...reported] })
  }
  return placed
}

function finishSet(placed: LocatedSet, parsing: Parsing): RuleSet | undefined {
  const { rules: located, ...fields } = placed
  const { cache, compare, warnOf, resolveRules = rulesOf } = parsing
  // A rule that could not be parsed may be the one that another seems to lack.
  if (parsing.errorCount() > 0) return undefined
  const rules = resolveRules(located)
  if (rules === undefined) return undefined
  const set = { ...fields, rules }
  checkPriorities({ rules, located }, set.priorities ?? [], parsing.report)
  const { matches } = cache ?? { matches: new MatchCache() }
  if (compare) {
    const selected = located.filter(({ rule }) => warnOf?.has(rule.id) ?? true)
    warnOfSet(set, selected, matches)
    // Checks of each rule alone, but not cached with it: another node may have other headers, and
    // regions are known of the set only.
    const regions = regionsOf(set, parsing.regions)
    for (const each of selected) {
      warnOfRegions(each, regions)
      warnOfFreeCost(each, parsing.origins)
      warnOfClaimedBlock(each, parsing.origins)
    }
  }
  const isLarge = cache !== undefined && rules.length >= LARGE_SET_MIN
  const most = isLarge ? cache.maxLimits.maxLimits(set) : maxLimitsPerCall(set, matches)
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
