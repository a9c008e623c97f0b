/**
 * Parses only the changed rules of a large set. An editor, and a node that follows a rule store,
 * parse sets repeatedly in which one rule of ten thousand differs.
 */
import { MatchCache } from '../matching/match-cache.js'
import { MaxLimitsCache } from '../matching/max-limits-per-call.js'
import type { Diagnostic } from './diagnostics.js'
import { OverrideLimitLists } from './override-limit-lists.js'
import type { Rule } from './rule.js'
import { type ObjectSize, isPlainObject, VALUES_MAX } from './object-tree.js'

export const RULES_MAX = 10_000
/** A smaller set is parsed whole in about a millisecond. */
export const LARGE_SET_MIN = 500
/** With a larger share of changes, parsing the whole set is as fast. */
const CHANGED_SHARE_MAX = 1 / 8

/** The cached result for an object that was parsed as a rule without an error. */
export interface CachedRule {
  readonly rule: Rule
  readonly size: ObjectSize
  /** The warnings of the rule alone. */
  readonly warnings: readonly Diagnostic[]
}

interface PartialSet {
  /** The set without the unchanged rules. */
  readonly source: object
  /**
   * Returns all rules, once those of `source` were parsed without an error; undefined if the whole
   * set must be parsed to find the problems. `values` is the number of values in `source`.
   */
  finish(read: readonly Rule[], values: number): readonly Rule[] | undefined
}

/**
 * The cache of earlier calls of `parseRules` and `parseOverride`, to be passed to later ones. An
 * object in which an earlier call found no error is not parsed again, so objects must not be
 * changed in place. Use one cache per owner of rules, for consecutive calls only.
 */
export class RuleCache {
  /** @internal Rules parsed from objects without an error, as long as the objects live. */
  readonly rules = new WeakMap<object, CachedRule>()
  /** @internal */
  readonly lastSet: ParsedSetCache
  /** @internal */
  readonly matches = new MatchCache()
  /** @internal */
  readonly maxLimits = new MaxLimitsCache(this.matches)
  /** @internal */
  readonly overrideLimits = new OverrideLimitLists()

  constructor() {
    this.lastSet = new ParsedSetCache((object) => this.rules.get(object), RULES_MAX)
  }
}

class ParsedSetCache {
  readonly #cachedRuleOf: (object: object) => CachedRule | undefined
  /** A set of more rules is parsed whole. */
  readonly #rulesMax: number
  #sources: readonly unknown[] = []
  /** The rules of `#sources`, at the same indexes. */
  #rules: readonly Rule[] = []
  #ids = new Set<string>()
  /** The number of values in all of them. */
  #values = 0
  /** How many of them have warnings. */
  #warningCount = 0

  constructor(cachedRuleOf: (object: object) => CachedRule | undefined, rulesMax: number) {
    this.#cachedRuleOf = cachedRuleOf
    this.#rulesMax = rulesMax
  }

  /** Stores the rules of a set that was parsed whole without an error, and the object of each. */
  store(list: readonly object[], rules: readonly Rule[]): void {
    if (list.length < LARGE_SET_MIN) return
    this.#values = 0
    this.#warningCount = 0
    for (const item of list) this.count(item, 1)
    this.#ids = new Set(rules.map(({ id }) => id))
    this.#sources = list
    // Copied, because the caller holds the original and may change it.
    this.#rules = [...rules]
  }

  /**
   * Returns undefined if the set must be parsed whole. Rules whose warnings are requested are
   * parsed even if unchanged.
   */
  partialSetOf(source: unknown, warnOf: ReadonlySet<string> | undefined): PartialSet | undefined {
    const set = largeSetOf(source)
    if (set === undefined || set.rules.length > this.#rulesMax) return undefined
    if (warnOf === undefined && this.#warningCount > 0) return undefined
    const { rules: list } = set
    const before = this.#sources
    const { kept, fresh, gone } = this.compare(list)
    if (fresh.size + gone.length > list.length * CHANGED_SHARE_MAX) return undefined
    const left = new Set(gone.map((place) => this.#rules[place]?.id ?? ''))
    const places: number[] = []
    for (const [place, rule] of kept.entries()) {
      if (rule === undefined || warnOf?.has(rule.id) === true) places.push(place)
    }
    return {
      source: { ...set, rules: places.map((place) => list[place]) },
      finish: (found, values) => {
        const added = found.filter((_, index) => fresh.has(places[index] ?? -1))
        const isTaken = added.some(({ id }) => this.#ids.has(id) && !left.has(id))
        // A getter may have parsed another set.
        if (isTaken || found.length !== places.length || this.#sources !== before) return undefined
        // An upper bound: removed rules, and unchanged ones that are parsed again, count in both.
        if (values + this.#values > VALUES_MAX) return undefined
        for (const [index, place] of places.entries()) kept[place] = found[index]
        for (const place of gone) this.count(before[place], -1)
        for (const id of left) this.#ids.delete(id)
        for (const place of fresh) this.count(list[place], 1)
        for (const { id } of added) this.#ids.add(id)
        this.#sources = list
        this.#rules = kept as readonly Rule[]
        return [...this.#rules]
      },
    }
  }

  /**
   * Returns the unchanged rules at their new indexes, the new indexes, and the removed old ones.
   */
  private compare(list: readonly unknown[]) {
    const before = this.#sources
    const kept: (Rule | undefined)[] = []
    const fresh = new Set<number>()
    const gone: number[] = []
    let old = 0
    for (let now = 0; now < list.length; now++) {
      const item = list[now]
      // A rule before it was removed.
      if (item !== before[old] && old < before.length && item === before[old + 1]) gone.push(old++)
      if (item === before[old] && old < before.length) {
        kept.push(this.#rules[old++])
        continue
      }
      kept.push(undefined)
      fresh.add(now)
      // Otherwise a rule was inserted before the one here.
      if (old < before.length && before[old] !== list[now + 1]) gone.push(old++)
    }
    while (old < before.length) gone.push(old++)
    return { kept, fresh, gone }
  }

  private count(item: unknown, sign: 1 | -1): void {
    const known = this.#cachedRuleOf(item as object)
    if (known === undefined) return
    this.#values += sign * (1 + known.size.values)
    if (known.warnings.length > 0) this.#warningCount += sign
  }
}

interface LargeSet {
  readonly rules: readonly unknown[]
}

/** Reads the fields of a large set that is a map. Each field is read once. */
function largeSetOf(source: unknown): LargeSet | undefined {
  if (typeof source !== 'object' || source === null || !isPlainObject(source)) return undefined
  const fields: { readonly rules?: unknown } = { ...source }
  const { rules } = fields
  if (!Array.isArray(rules) || rules.length < LARGE_SET_MIN) return undefined
  // Copied, because a list may be changed in place, unlike the rules in it.
  return { ...fields, rules: [...(rules as readonly unknown[])] }
}
