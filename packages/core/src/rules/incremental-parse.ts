/**
 * Parses only what changed of a large set. An editor, and a node that follows a rule store, parse
 * sets again and again in which one rule of ten thousand differs.
 */
import { MaxLimitsCache } from '../matching/max-limits-per-call.js'
import type { Diagnostic } from './diagnostics.js'
import type { Rule } from './rule.js'
import { type ObjectSize, isPlainObject, VALUES_MAX } from './object-tree.js'

export const RULES_MAX = 10_000
/** Parsing a smaller set whole takes about a millisecond. */
export const LARGE_SET_MIN = 500
/** Beyond this part of a set, reading all of it is as quick. */
const CHANGED_SHARE_MAX = 1 / 8

/** What is known of an object that a rule was read from without an error. */
export interface CachedRule {
  readonly rule: Rule
  readonly size: ObjectSize
  /** What was said of it by itself. */
  readonly warnings: readonly Diagnostic[]
}

interface PartialSet {
  /** The set without the rules that stay. */
  readonly source: object
  /**
   * All rules, once those of `source` were read without an error; undefined where only reading the
   * whole set tells what is wrong. `values` is what reading `source` took.
   */
  finish(read: readonly Rule[], values: number): readonly Rule[] | undefined
}

/**
 * What earlier calls of `parseRules` read, to be passed to later ones. A rule that is the very
 * object that an earlier call found no error in is not read again, so objects must not be changed
 * in place. Only for calls that follow each other: whoever owns the rules owns one cache.
 */
export class RuleCache {
  /** @internal Rules that were read from objects without an error, as long as those live. */
  readonly rules = new WeakMap<object, CachedRule>()
  /** @internal */
  readonly lastSet: ParsedSetCache
  /** @internal */
  readonly maxLimits = new MaxLimitsCache()

  constructor() {
    this.lastSet = new ParsedSetCache((object) => this.rules.get(object), RULES_MAX)
  }
}

class ParsedSetCache {
  readonly #cachedRuleOf: (object: object) => CachedRule | undefined
  /** A set of more rules is told of whole. */
  readonly #rulesMax: number
  #sources: readonly unknown[] = []
  /** Of `#sources`, each in its place. */
  #rules: readonly Rule[] = []
  #ids = new Set<string>()
  /** What reading all of them took. */
  #values = 0
  /** How many of them have warnings of their own. */
  #warningCount = 0

  constructor(cachedRuleOf: (object: object) => CachedRule | undefined, rulesMax: number) {
    this.#cachedRuleOf = cachedRuleOf
    this.#rulesMax = rulesMax
  }

  /** The rules of a set that was read whole, without an error, and what each was read from. */
  store(list: readonly object[], rules: readonly Rule[]): void {
    if (list.length < LARGE_SET_MIN) return
    this.#values = 0
    this.#warningCount = 0
    for (const item of list) this.count(item, 1)
    this.#ids = new Set(rules.map(({ id }) => id))
    this.#sources = list
    // Copied: whoever asked has the other, and may do with it what they like.
    this.#rules = [...rules]
  }

  /**
   * Undefined where the set is to be read whole. Rules of which warnings are wanted are read even
   * if they stay.
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
        // A field that is worked out when it is read may have read another set.
        if (isTaken || found.length !== places.length || this.#sources !== before) return undefined
        // At most: what is gone, and what is read though it stays, is counted in both.
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

  /** Which rules stay, each in its new place; which places are new; and which old ones are gone. */
  private compare(list: readonly unknown[]) {
    const before = this.#sources
    const kept: (Rule | undefined)[] = []
    const fresh = new Set<number>()
    const gone: number[] = []
    let old = 0
    for (let now = 0; now < list.length; now++) {
      const item = list[now]
      // One was taken out before it.
      if (item !== before[old] && old < before.length && item === before[old + 1]) gone.push(old++)
      if (item === before[old] && old < before.length) {
        kept.push(this.#rules[old++])
        continue
      }
      kept.push(undefined)
      fresh.add(now)
      // Else it was put in before what stands here.
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

/** The fields of a large set that is a map, as books are read. Each is looked at once. */
function largeSetOf(source: unknown): LargeSet | undefined {
  if (typeof source !== 'object' || source === null || !isPlainObject(source)) return undefined
  const fields: { readonly rules?: unknown } = { ...source }
  const { rules } = fields
  if (!Array.isArray(rules) || rules.length < LARGE_SET_MIN) return undefined
  // Copied: a list may be changed in place, other than the rules in it.
  return { ...fields, rules: [...(rules as readonly unknown[])] }
}
