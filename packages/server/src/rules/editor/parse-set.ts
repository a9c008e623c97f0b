/** The rules of a draft or a book as the parser reads them, without their overrides. */
import { parseRules, type Problem, type RuleSet } from '@sluice/core'
import type { SetDocument } from '../store/records.js'
import type { CatalogRule, RuleCatalog } from '../sync/rule-catalog.js'
import type { Draft } from './draft.js'
import { combineRule } from './rule-documents.js'

/** Each pass finds the rules of up to a hundred problems. */
const PASSES_MAX = 100

export interface ParsedSet {
  /** Rules that were bad in the store already are not in it. */
  readonly rules: RuleSet | undefined
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** Ids of the rules whose warnings are wanted; undefined: all. Each takes a look at all others. */
export type WarnOf = ReadonlySet<string> | undefined

export const NO_WARNINGS: WarnOf = new Set()

type Source = Pick<SetDocument, 'routes' | 'strictPaths'>

/** Rules as the parser takes them, each with its id beside it. */
interface CombinedRules {
  readonly ids: readonly string[]
  readonly rules: readonly object[]
}

/**
 * A rule that somebody made bad behind the editor's back is no reason to refuse the change of
 * another: it is left out, and every node keeps the last good one of it.
 */
function parseAround(
  { routes, strictPaths }: Source,
  combined: CombinedRules,
  {
    touched,
    warnOf,
    fromHeaders,
  }: {
    readonly touched: ReadonlySet<string>
    readonly warnOf: WarnOf
    readonly fromHeaders?: ReadonlySet<string> | undefined
  },
): ParsedSet {
  let { ids, rules } = combined
  for (let pass = 1; ; pass++) {
    const parsed = parseRules({ routes, strictPaths, rules }, { warnOf, fromHeaders })
    const bad = badRules(parsed.errors, ids)
    for (const id of touched) bad.delete(id)
    if (bad.size === 0 || pass === PASSES_MAX) return parsed
    const left = ids.map((id) => !bad.has(id))
    ids = ids.filter((_, index) => left[index])
    rules = rules.filter((_, index) => left[index])
  }
}

/** Whose problems these are: named by the rule's id, or by its place where that is none. */
function badRules(errors: readonly Problem[], ids: readonly string[]): Set<string> {
  const bad = new Set<string>()
  for (const { rule, field } of errors) {
    const place = /^rules\[(\d+)\]/.exec(field)?.[1]
    const id = rule ?? (place === undefined ? undefined : ids[Number(place)])
    if (id !== undefined) bad.add(id)
  }
  return bad
}

export function parseDraft(
  draft: Draft,
  warnOf?: WarnOf,
  fromHeaders?: ReadonlySet<string>,
): ParsedSet {
  const { routes, strictPaths, order } = draft.set
  const stored = draft.catalog.rules()
  const ids: string[] = []
  const rules: object[] = []
  for (const [place, id] of order.entries()) {
    // Most stand where they stood, which is quicker than asking the book for each.
    const there = stored[place]
    const rule = there?.document.id === id && !draft.isPut(id) ? there : draft.rule(id)
    if (rule === undefined) continue
    ids.push(id)
    rules.push(combineRule(rule))
  }
  const touched = draft.touchedRules()
  return parseAround({ routes, strictPaths }, { ids, rules }, { touched, warnOf, fromHeaders })
}

/** What was made of a book, while it shows the same: whoever types a rule asks again and again. */
const knownSets = new WeakMap<
  readonly CatalogRule[],
  { readonly source: Source; readonly set: RuleSet }
>()

export function parseBook(catalog: RuleCatalog): RuleSet {
  const rules = catalog.rules()
  const { set: source } = catalog
  const known = knownSets.get(rules)
  if (known?.source === source) return known.set
  const ids = rules.map(({ document }) => document.id)
  const combined = { ids, rules: rules.map(combineRule) }
  // Nobody is told of warnings here, and to look for them takes longest.
  const options = { touched: new Set<string>(), warnOf: NO_WARNINGS }
  const parsed = parseAround(source, combined, options)
  const set = parsed.rules ?? { routes: [], strictPaths: source.strictPaths, rules: [] }
  knownSets.set(rules, { source, set })
  return set
}
