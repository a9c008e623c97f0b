/** Shares the compiled limits of a rule's overrides: many callers have few different lists. */
import type { Limit, LimitSpec } from '../limit.js'
import type { Rule } from '../rules/rule.js'
import type { SipKey } from '../sip-hash.js'
import { compileLimits, InternPool } from './compile-limits.js'
import type { CompiledLimit } from './compiled.js'

/** More different lists of one rule are not shared. */
const LISTS_MAX = 1000

interface LimitList {
  readonly specs: readonly LimitSpec[]
  readonly limits: readonly CompiledLimit[]
}

/** Part of a compiled rule, and empty until the rule has an override, which few rules have. */
export class OverrideLimits {
  readonly #rule: Rule
  readonly #limitKey: SipKey
  #lists: LimitLists | undefined

  constructor(rule: Rule, limitKey: SipKey) {
    this.#rule = rule
    this.#limitKey = limitKey
  }

  get(specs: readonly LimitSpec[]): LimitList {
    this.#lists ??= new LimitLists(this.#rule, this.#limitKey)
    return this.#lists.get(specs)
  }
}

class LimitLists {
  readonly #rule: Rule
  readonly #limitKey: SipKey
  readonly #known = new Map<string, LimitList>()
  /** The same by list object: lists from one parse are already shared. */
  readonly #bySpecs = new WeakMap<readonly LimitSpec[], LimitList>()
  #limits = new InternPool<Limit>()

  constructor(rule: Rule, limitKey: SipKey) {
    this.#rule = rule
    this.#limitKey = limitKey
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
    const context = { limitKey: this.#limitKey, limits: this.#limits }
    const list = { specs, limits: compileLimits(specs, this.#rule, context) }
    this.#known.set(text, list)
    return list
  }
}
