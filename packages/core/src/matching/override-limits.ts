/** Shares the compiled limits of a rule's overrides: many callers have few different lists. */
import type { Limit, LimitSpec } from '../limit.js'
import type { Rule } from '../rules/rule.js'
import { compileLimits, InternPool, type LimitContext } from './compile-limits.js'
import type { CompiledLimit } from './compiled.js'

/** More different lists of one rule are not shared. */
const LISTS_MAX = 1000

/** What the limits of all overrides of a set have in common. */
type OverrideScope = Omit<LimitContext, 'limits'>

interface LimitList {
  readonly specs: readonly LimitSpec[]
  readonly limits: readonly CompiledLimit[]
}

/** Part of a compiled rule, and empty until the rule has an override, which few rules have. */
export class OverrideLimits {
  readonly #rule: Rule
  readonly #scope: OverrideScope
  #lists: LimitLists | undefined
  #hasPlaces = false

  constructor(rule: Rule, scope: OverrideScope) {
    this.#rule = rule
    this.#scope = scope
  }

  /** Whether an override, now or before, counts calls in flight. */
  get hasPlaces(): boolean {
    return this.#hasPlaces
  }

  get(specs: readonly LimitSpec[]): LimitList {
    this.#lists ??= new LimitLists(this.#rule, this.#scope)
    const list = this.#lists.get(specs)
    this.#hasPlaces ||= list.limits.some(({ isPlaces }) => isPlaces)
    return list
  }
}

class LimitLists {
  readonly #rule: Rule
  readonly #scope: OverrideScope
  readonly #known = new Map<string, LimitList>()
  /** The same by list object: lists from one parse are already shared. */
  readonly #bySpecs = new WeakMap<readonly LimitSpec[], LimitList>()
  #limits = new InternPool<Limit>()

  constructor(rule: Rule, scope: OverrideScope) {
    this.#rule = rule
    this.#scope = scope
  }

  get(specs: readonly LimitSpec[]): LimitList {
    const existing = this.#bySpecs.get(specs)
    if (existing !== undefined) return existing
    const list = this.find(specs)
    this.#bySpecs.set(specs, list)
    return list
  }

  private find(specs: readonly LimitSpec[]): LimitList {
    const text = JSON.stringify(specs)
    const known = this.#known.get(text)
    if (known !== undefined) return known
    // Only sharing is lost: earlier compiled lists live on in their overrides.
    if (this.#known.size >= LISTS_MAX) {
      this.#known.clear()
      this.#limits = new InternPool()
    }
    const { limitKey, priorities, region } = this.#scope
    const context = { limitKey, priorities, region, limits: this.#limits }
    const list = { specs, limits: compileLimits(specs, this.#rule, context) }
    this.#known.set(text, list)
    return list
  }
}
