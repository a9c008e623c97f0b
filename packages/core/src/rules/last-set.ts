/**
 * The large set that was read last, so that of the next one only what differs is read: an editor,
 * and a node that follows a store, read sets of which one rule in ten thousand is another.
 */
import type { Rule } from './rule.js'
import { type Extent, isPlain, PARTS_MAX } from './value.js'

/** A smaller set is read in no time. */
export const LARGE_FROM = 500
/** Beyond this part of a set, reading all of it is as quick. */
const CHANGED_SHARE_MAX = 1 / 8

/** What is known of an object that a rule was read from without an error. */
export interface KnownRule {
  readonly rule: Rule
  readonly extent: Extent
  /** What was said of it by itself. */
  readonly warnings: readonly unknown[]
}

export interface ChangedSet {
  /** The set without the rules that stay. */
  readonly source: object
  /**
   * All rules, once those of `source` were read without an error; undefined where only reading the
   * whole set tells what is wrong. `parts` is what reading `source` took.
   */
  finish(read: readonly Rule[], parts: number): readonly Rule[] | undefined
}

export class LastSet {
  readonly #knownOf: (object: object) => KnownRule | undefined
  /** A set of more rules is told of whole. */
  readonly #most: number
  #list: readonly unknown[] = []
  /** Of `#list`, each in its place. */
  #rules: readonly Rule[] = []
  #ids = new Set<string>()
  /** What reading all of them took. */
  #parts = 0
  /** How many of them have warnings of their own. */
  #warned = 0

  constructor(knownOf: (object: object) => KnownRule | undefined, most: number) {
    this.#knownOf = knownOf
    this.#most = most
  }

  /** The rules of a set that was read whole, without an error, and what each was read from. */
  take(list: readonly object[], rules: readonly Rule[]): void {
    if (list.length < LARGE_FROM) return
    this.#parts = 0
    this.#warned = 0
    for (const item of list) this.count(item, 1)
    this.#ids = new Set(rules.map(({ id }) => id))
    this.#list = list
    // Copied: whoever asked has the other, and may do with it what they like.
    this.#rules = [...rules]
  }

  /**
   * Undefined where the set is to be read whole. Rules of which warnings are wanted are read even
   * if they stay.
   */
  changeOf(source: unknown, warnOf: ReadonlySet<string> | undefined): ChangedSet | undefined {
    const set = largeSetOf(source)
    if (set === undefined || set.rules.length > this.#most) return undefined
    if (warnOf === undefined && this.#warned > 0) return undefined
    const { rules: list } = set
    const before = this.#list
    const { kept, fresh, gone } = this.compare(list)
    if (fresh.size + gone.length > list.length * CHANGED_SHARE_MAX) return undefined
    const left = new Set(gone.map((place) => this.#rules[place]?.id ?? ''))
    const places: number[] = []
    for (const [place, rule] of kept.entries()) {
      if (rule === undefined || warnOf?.has(rule.id) === true) places.push(place)
    }
    return {
      source: { ...set, rules: places.map((place) => list[place]) },
      finish: (found, parts) => {
        const added = found.filter((_, index) => fresh.has(places[index] ?? -1))
        const isTaken = added.some(({ id }) => this.#ids.has(id) && !left.has(id))
        // A field that is worked out when it is read may have read another set.
        if (isTaken || found.length !== places.length || this.#list !== before) return undefined
        // At most: what is gone, and what is read though it stays, is counted in both.
        if (parts + this.#parts > PARTS_MAX) return undefined
        for (const [index, place] of places.entries()) kept[place] = found[index]
        for (const place of gone) this.count(before[place], -1)
        for (const id of left) this.#ids.delete(id)
        for (const place of fresh) this.count(list[place], 1)
        for (const { id } of added) this.#ids.add(id)
        this.#list = list
        this.#rules = kept as readonly Rule[]
        return [...this.#rules]
      },
    }
  }

  /** Which rules stay, each in its new place; which places are new; and which old ones are gone. */
  private compare(list: readonly unknown[]) {
    const before = this.#list
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
    const known = this.#knownOf(item as object)
    if (known === undefined) return
    this.#parts += sign * (1 + known.extent.parts)
    if (known.warnings.length > 0) this.#warned += sign
  }
}

interface LargeSet {
  readonly rules: readonly unknown[]
}

/** The fields of a large set that is a map, as books are read. Each is looked at once. */
function largeSetOf(source: unknown): LargeSet | undefined {
  if (typeof source !== 'object' || source === null || !isPlain(source)) return undefined
  const fields: { readonly rules?: unknown } = { ...source }
  const { rules } = fields
  if (!Array.isArray(rules) || rules.length < LARGE_FROM) return undefined
  // Copied: a list may be changed in place, other than the rules in it.
  return { ...fields, rules: [...(rules as readonly unknown[])] }
}
