/**
 * Parses the rules of one catalog. Each document is parsed once: the follower and the editor share
 * the result for as long as the document lives.
 */
import {
  type ParsedOverride,
  type ParsedRules,
  parseOverride,
  parseRules,
  type Problem,
  type Rule,
  RuleCache,
} from '@sluice/core'
import type { CandidateDocument, RuleDocument } from '../store/records.js'

/** A rule as it is stored: without `overrides`, and with its candidate beside it. */
export interface RuleDocuments {
  readonly document: RuleDocument
  readonly candidate: CandidateDocument | undefined
}

/** A rule with its candidate, as a rules file has it. */
export type WholeRule = Readonly<Record<string, unknown>> & { readonly id: string }

/** A rule that was parsed alone, so that errors name its own fields. */
export interface ParsedDocument {
  /** Undefined if there are errors. */
  readonly rule: Rule | undefined
  readonly errors: readonly Problem[]
}

type ParseOptions = Omit<NonNullable<Parameters<typeof parseRules>[1]>, 'cache'>

export class RuleParser {
  readonly #cache = new RuleCache()
  readonly #wholeRules = new WeakMap<RuleDocument, WholeRule & { readonly candidate?: unknown }>()
  readonly #parsed = new WeakMap<WholeRule, ParsedDocument>()

  /** Returns the same object for the same documents: results are kept by object identity. */
  combine({ document, candidate }: RuleDocuments): WholeRule {
    if (candidate === undefined) return document
    const known = this.#wholeRules.get(document)
    if (known?.candidate === candidate) return known
    const whole = { ...document, candidate }
    this.#wholeRules.set(document, whole)
    return whole
  }

  parseRule(documents: RuleDocuments): ParsedDocument {
    const whole = this.combine(documents)
    const known = this.#parsed.get(whole)
    if (known !== undefined) return known
    // In the shape of a whole set, so that the parser reuses its work when the set is parsed.
    const { rules, errors } = this.parseSet({ rules: [whole] })
    const parsed = { rule: rules?.rules[0], errors }
    this.#parsed.set(whole, parsed)
    return parsed
  }

  /** Parses a whole set of objects. Rules that were parsed before are not parsed again. */
  parseSet(source: object, options: ParseOptions = {}): ParsedRules {
    return parseRules(source, { ...options, cache: this.#cache })
  }

  /** Parses a standalone override of a rule. Overrides with the same limits share one list. */
  parseOverride(rule: Rule, source: object): ParsedOverride {
    return parseOverride(rule, source, { cache: this.#cache })
  }
}
