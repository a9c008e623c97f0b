/** The rules of a draft or a book as the parser reads them, without their overrides. */
import { type ParsedRules, parseRules, type Problem, type RuleSet } from '@sluice/core'
import type { RuleBook } from '../source/rule-book.js'
import type { Draft } from './draft.js'
import { putTogether } from './documents.js'

/** Each pass finds the rules of up to a hundred problems. */
const PASSES_MAX = 100

export interface ParsedSet {
  /** Rules that were bad in the store already are not in it. */
  readonly rules: RuleSet | undefined
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
}

interface Source {
  readonly routes: readonly unknown[]
  readonly strictPaths: boolean
  /** Each by its id. */
  readonly rules: ReadonlyMap<string, object>
}

/**
 * A rule that somebody made bad behind the editor's back is no reason to refuse the change of
 * another: it is left out, and every node keeps the last good one of it.
 */
function parseAround(
  source: Source,
  touched: ReadonlySet<string>,
  options: { readonly compare?: boolean } = {},
): ParsedSet {
  const rules = new Map(source.rules)
  for (let pass = 1; ; pass++) {
    const parsed = parse({ ...source, rules }, options)
    const bad = badRules(parsed.errors, [...rules.keys()]).filter((id) => !touched.has(id))
    if (bad.length === 0 || pass === PASSES_MAX) return parsed
    for (const id of bad) rules.delete(id)
  }
}

function parse(
  { routes, strictPaths, rules }: Source,
  options: { readonly compare?: boolean },
): ParsedRules {
  return parseRules({ routes, strictPaths, rules: [...rules.values()] }, options)
}

/** Whose problems these are: named by the rule's id, or by its place where that is none. */
function badRules(errors: readonly Problem[], ids: readonly string[]): readonly string[] {
  const bad = errors.map(({ rule, field }) => {
    const place = /^rules\[(\d+)\]/.exec(field)?.[1]
    return rule ?? (place === undefined ? undefined : ids[Number(place)])
  })
  return [...new Set(bad)].filter((id) => id !== undefined)
}

export function parseDraft(draft: Draft): ParsedSet {
  const { routes, strictPaths, order } = draft.set
  const rules = new Map<string, object>()
  for (const id of order) {
    const rule = draft.rule(id)
    if (rule !== undefined) rules.set(id, putTogether(rule))
  }
  return parseAround({ routes, strictPaths, rules }, draft.touchedRules())
}

export function parseBook(book: RuleBook): RuleSet {
  const { routes, strictPaths } = book.set
  const rules = new Map(book.rules().map((rule) => [rule.document.id, putTogether(rule)]))
  // Nobody is told of warnings here, and to look for them takes longest.
  const parsed = parseAround({ routes, strictPaths, rules }, new Set(), { compare: false })
  return parsed.rules ?? { routes: [], strictPaths, rules: [] }
}
