/**
 * The compiled matches of parsed rules and the shapes of their paths. Each check of a set needs
 * them, and so does each later set with the same rules, so the owner of the rules keeps one cache.
 */
import { patternShape } from '../rules/pattern-shape.js'
import type { Rule } from '../rules/rule.js'
import { type CompiledMatch, compileMatch } from './compiled-match.js'

/** The shape of a rule for every path. */
export const ANY_PATH = ''

export class MatchCache {
  readonly #matches = new WeakMap<Rule, CompiledMatch>()
  /** Apart from the matches, because a changed rule is compared with the shapes of all others. */
  #shapes = new WeakMap<Rule, string>()
  #isStrict = false

  compiledMatch(rule: Rule): CompiledMatch {
    const known = this.#matches.get(rule)
    if (known !== undefined) return known
    const compiled = compileMatch(rule)
    this.#matches.set(rule, compiled)
    return compiled
  }

  /** Returns the shape of the rule's path, see `patternShape`. */
  pathShape(rule: Rule, isStrict: boolean): string {
    if (isStrict !== this.#isStrict) {
      this.#isStrict = isStrict
      this.#shapes = new WeakMap()
    }
    const known = this.#shapes.get(rule)
    if (known !== undefined) return known
    const { pattern } = this.compiledMatch(rule)
    const shape = pattern === undefined ? ANY_PATH : patternShape(pattern, isStrict)
    this.#shapes.set(rule, shape)
    return shape
  }
}
