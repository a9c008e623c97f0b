/** Warns of likely mistakes in how rules combine. Errors with `strict`. */
import { formatDuration } from '../text/duration.js'
import type { LimitSpec } from '../limit.js'
import { ANY_PATH, type MatchCache } from '../matching/match-cache.js'
import type { PathPattern } from '../path.js'
import { isCoveredBy, mayMeet } from './match-overlap.js'
import { meansEverybody } from './parse-attribute.js'
import type { LocatedRule } from './parse-rule.js'
import { reportAt, fieldOf } from './reader.js'
import { isExclusion, type Rule, type RuleSet } from './rule.js'
import { coveringShapes } from './pattern-shape.js'
import { quote } from './tree.js'

/** Attributes that every call has, so that no caller can omit them. */
const ALWAYS_PRESENT: readonly string[] = ['ip', 'method', 'path']
const IDENTITIES: readonly string[] = ['user', 'api_key']
/**
 * Two rules are compared in well below a microsecond, but a set may have ten thousand for one path.
 * After this many comparisons no more warnings are given, so that an unusual set causes no delay.
 */
const COMPARISONS_MAX = 5_000_000

interface EnforcedRule {
  readonly locatedRule: LocatedRule
  readonly pattern: PathPattern | undefined
  readonly shape: string
}

/**
 * Rules of one path that count by the same attributes; most checks apply to all of them at once.
 */
interface Group {
  readonly by: readonly string[]
  /** `by` as a text. */
  readonly name: string
  readonly rules: Rule[]
}

interface Neighbours {
  readonly groupsByShape: ReadonlyMap<string, readonly Group[]>
  readonly strictPaths: boolean
  readonly alwaysPresent: readonly string[]
  comparisons: number
}

/**
 * Checks some or all rules of a set without problems. Only enforced rules refuse, so only they are
 * compared.
 */
export function warnOfSet(
  { rules, strictPaths, priorities }: RuleSet,
  selected: readonly LocatedRule[],
  matches: MatchCache,
): void {
  const enforced = selected
    .filter(({ rule }) => rule.mode === 'enforce')
    .map((locatedRule) => {
      const { rule } = locatedRule
      const { pattern } = matches.compiledMatch(rule)
      return { locatedRule, pattern, shape: matches.pathShape(rule, strictPaths) }
    })
  if (enforced.length === 0) return
  const isNear = enforced.length < rules.length ? nearnessOf(enforced, strictPaths) : undefined
  const groupsByShape = new Map<string, Group[]>()
  for (const rule of rules) {
    if (rule.mode !== 'enforce') continue
    const shape = matches.pathShape(rule, strictPaths)
    if (isNear?.(shape) ?? true) groupOf(rule, shape, groupsByShape).rules.push(rule)
  }
  const alwaysPresent = priorities === undefined ? ALWAYS_PRESENT : [...ALWAYS_PRESENT, 'priority']
  const neighbours = { groupsByShape, strictPaths, alwaysPresent, comparisons: 0 }
  for (const each of enforced) {
    warnOfTightAddress(each, neighbours)
    warnOfDodging(each, neighbours)
  }
}

/** Returns whether rules of a path are compared with any of these rules. */
function nearnessOf(
  enforced: readonly EnforcedRule[],
  strictPaths: boolean,
): (shape: string) => boolean {
  const shapes = new Set([ANY_PATH])
  for (const { pattern } of enforced) {
    if (pattern === undefined) continue
    for (const shape of coveringShapes(pattern, strictPaths)) shapes.add(shape)
  }
  return (shape) => shapes.has(shape)
}

function groupOf({ by }: Rule, shape: string, groupsByShape: Map<string, Group[]>): Group {
  const name = by.join(' ')
  const groups = groupsByShape.get(shape)
  const known = groups?.find((group) => group.name === name)
  if (known !== undefined) return known
  const group = { by, name, rules: [] }
  if (groups === undefined) groupsByShape.set(shape, [group])
  else groups.push(group)
  return group
}

/** Yields the rules of one path whose `by` passes, within the bound of comparisons. */
function* neighboursOf(
  neighbours: Neighbours,
  shape: string,
  isWanted: (by: readonly string[]) => boolean,
): Generator<Rule> {
  for (const { by, rules } of neighbours.groupsByShape.get(shape) ?? []) {
    if (!isWanted(by)) continue
    for (const rule of rules) {
      if (++neighbours.comparisons > COMPARISONS_MAX) return
      yield rule
    }
  }
}

/**
 * Many users share one address, so a limit per address below the limit per user refuses users that
 * are within their own limit. The slowest limit of each is compared: the sustained rate.
 */
function warnOfTightAddress({ locatedRule, shape }: EnforcedRule, neighbours: Neighbours): void {
  const { rule, map } = locatedRule
  if (!rule.by.includes('ip') || rule.by.some((name) => IDENTITIES.includes(name))) return
  const slowest = slowestLimit(rule)
  // A rule for certain networks, or one that refuses all, is tight on purpose.
  if (slowest === undefined || slowest.max === 0) return
  const networks = rule.match.where.get('ip')
  if (networks !== undefined && networks !== null && !isExclusion(networks)) return

  const hasIdentity = (by: readonly string[]) => by.some((name) => IDENTITIES.includes(name))
  for (const other of neighboursOf(neighbours, shape, hasIdentity)) {
    const theirs = slowestLimit(other)
    const identity = other.by.find((name) => IDENTITIES.includes(name))
    if (theirs === undefined || identity === undefined || !hasSameCost(rule, other)) continue
    if (rateOf(slowest) >= rateOf(theirs) || !mayMeet(rule, other)) continue
    reportAt(fieldOf(map, 'limits') ?? map, 'tight-address-rule', {
      found: formatLimit(slowest),
      why: `${formatLimit(theirs)} per ${identity} in rule "${other.id}"`,
      accepted: `at least ${formatLimit(theirs)}, or match.where with ${identity}: null`,
    })
    return
  }
}

/**
 * Warns of a rule that callers can dodge. A rule counts only calls that have every attribute of its
 * `by`. A call without one must match another enforced rule; otherwise omitting the attribute
 * bypasses the limit.
 *
 * The other rule covers such calls if it certainly matches and counts each of them:
 * - its path is the same, absent, or a `/*` above it (a pattern that is wider in another way does
 *   not count, so this may warn where all is well);
 * - its methods and its `where` hold for every call of this rule but for the missing attribute;
 * - its `by` needs only attributes that every call has and the other attributes of this rule.
 * That other rule is checked in the same way, so omitting two attributes bypasses neither.
 */
function warnOfDodging(enforced: EnforcedRule, neighbours: Neighbours): void {
  const { rule, map } = enforced.locatedRule
  for (const attribute of rule.by) {
    // A word for all callers has a more specific warning.
    if (neighbours.alwaysPresent.includes(attribute) || meansEverybody(attribute)) continue
    if (isCaught(enforced, attribute, neighbours)) continue
    reportAt(fieldOf(map, 'by') ?? map, 'dodged-rule', {
      found: quote(attribute),
      accepted: `a rule for such calls too, by: [ip] with match.where { ${attribute}: null }`,
    })
  }
}

function isCaught(
  { locatedRule: { rule }, pattern }: EnforcedRule,
  missing: string,
  neighbours: Neighbours,
): boolean {
  const present = new Set([...neighbours.alwaysPresent, ...rule.by])
  for (const [name, clause] of rule.match.where) {
    // A call without the attribute has none of the excluded values.
    if (clause !== null && !isExclusion(clause)) present.add(name)
  }
  present.delete(missing)
  const isCounted = (by: readonly string[]) => by.every((name) => present.has(name))
  const isCaughtAt = (shape: string) => {
    for (const other of neighboursOf(neighbours, shape, isCounted)) {
      if (isCoveredBy(rule.match, other.match, missing)) return true
    }
    return false
  }
  // Most sets have a rule for every path, and then no other needs to be searched.
  if (isCaughtAt(ANY_PATH)) return true
  const shapes = pattern === undefined ? [] : coveringShapes(pattern, neighbours.strictPaths)
  return shapes.some(isCaughtAt) || neighbours.comparisons > COMPARISONS_MAX
}

/** The limit with the lowest rate; undefined if the rule counts only calls in flight. */
function slowestLimit({ limits }: Rule): LimitSpec | undefined {
  const [first, ...others] = limits.filter(({ windowMs }) => windowMs > 0)
  return others.reduce((slowest, limit) => {
    return slowest === undefined || rateOf(limit) < rateOf(slowest) ? limit : slowest
  }, first)
}

function rateOf({ max, windowMs }: LimitSpec): number {
  return max / windowMs
}

function formatLimit({ max, windowMs, window }: LimitSpec): string {
  return `${max}/${window ?? formatDuration(windowMs)}`
}

function hasSameCost(a: Rule, b: Rule): boolean {
  return JSON.stringify(a.cost) === JSON.stringify(b.cost)
}
