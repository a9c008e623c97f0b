/**
 * From the documents of a book to rules that can be put into force. One that is bad, because
 * somebody wrote into the store by hand, costs that rule its change and no other rule anything.
 */
import { type ParsedRules, parseRules } from '@sluice/core'
import type { CatalogRule, RuleCatalog } from './rule-catalog.js'
import { CooperativeYield } from '../../lib/cooperative-yield.js'

/** A rule with its candidate, as a rules file has it. */
export type WholeRule = Readonly<Record<string, unknown>> & { readonly id: string }

/** What of a set belongs to no single rule, as far as it decides calls. */
type Paths = Pick<RuleCatalog['set'], 'routes' | 'strictPaths'>

export interface RuleReadResult {
  readonly parsed: ParsedRules
  /** What it was parsed of, by id. */
  readonly documents: ReadonlyMap<string, WholeRule>
  readonly paths: Paths
  /** Why rules are not as the book has them, by id. */
  readonly refused: ReadonlyMap<string, string>
}

interface MergedRule {
  readonly document: CatalogRule['document']
  readonly candidate: CatalogRule['candidate']
  readonly whole: WholeRule
}

/**
 * Of a larger set, warnings are looked for at the start only: whoever changes it is told by the
 * editor, and calls need not wait until it is done here too.
 */
const COMPARED_MAX = 1000

export class RuleReader {
  /** Attributes that callers may set themselves, by a header; undefined: not known. */
  readonly fromHeaders: ReadonlySet<string> | undefined
  #hasRead = false
  /** A rule is the very same object while nothing of it changes: then it is not parsed again. */
  #merged: ReadonlyMap<string, MergedRule> = new Map()
  /** What is wrong with a rule; null: nothing. */
  readonly #problems = new WeakMap<WholeRule, string | null>()

  /** A rule as it is read while it refuses nobody: the same object each time. */
  readonly #shadowed = new WeakMap<WholeRule, WholeRule>()

  constructor(fromHeaders?: ReadonlySet<string>) {
    this.fromHeaders = fromHeaders
  }

  /**
   * `activeDocuments` has the documents that stand in for bad ones, by id. Enforced rules that
   * `isShadowed` are read as if they were in shadow; the documents stay what they are.
   */
  async read(
    catalog: RuleCatalog,
    activeDocuments: ReadonlyMap<string, WholeRule>,
    isShadowed: (id: string) => boolean = () => false,
  ): Promise<RuleReadResult> {
    const slices = new CooperativeYield()
    const merged = new Map<string, MergedRule>()
    const documents = new Map<string, WholeRule>()
    const refused = new Map<string, string>()
    for (const rule of catalog.rules()) {
      const { id } = rule.document
      const own = this.mergedOf(rule)
      merged.set(id, own)
      // Alone, and in turns: what was read so is not read again with the set.
      if (slices.isDue()) await slices.pause()
      const problem = this.problemOf(own.whole)
      if (problem !== null) refused.set(id, problem)
      const document = problem === null ? own.whole : activeDocuments.get(id)
      if (document !== undefined) documents.set(id, document)
    }
    this.#merged = merged
    if (slices.isDue()) await slices.pause()
    const { routes, strictPaths } = catalog.set
    const compare = !this.#hasRead || documents.size <= COMPARED_MAX
    this.#hasRead = true
    const paths = { routes, strictPaths }
    const parsed = this.parse({ documents, paths }, isShadowed, compare)
    return { parsed, documents, paths, refused }
  }

  /** Parses what was read before, as it shall be now. */
  parse(
    { documents, paths }: Pick<RuleReadResult, 'documents' | 'paths'>,
    isShadowed: (id: string) => boolean,
    compare = false,
  ): ParsedRules {
    const rules = [...documents.values()].map((rule) =>
      isShadowed(rule.id) && isEnforced(rule) ? this.shadowed(rule) : rule,
    )
    const { fromHeaders } = this
    return parseRules({ ...paths, rules }, { compare, fromHeaders })
  }

  private mergedOf({ document, candidate }: CatalogRule): MergedRule {
    const known = this.#merged.get(document.id)
    if (known?.document === document && known.candidate === candidate) return known
    const whole = candidate === undefined ? document : { ...document, candidate }
    return { document, candidate, whole }
  }

  private shadowed(rule: WholeRule): WholeRule {
    const known = this.#shadowed.get(rule)
    if (known !== undefined) return known
    const shadowed = { ...rule, mode: 'shadow' }
    this.#shadowed.set(rule, shadowed)
    return shadowed
  }

  private problemOf(rule: WholeRule): string | null {
    const known = this.#problems.get(rule)
    if (known !== undefined) return known
    const { errors } = parseRules({ rules: [rule] })
    const problem = errors.length === 0 ? null : errors.map(({ message }) => message).join('; ')
    this.#problems.set(rule, problem)
    return problem
  }
}

function isEnforced({ mode }: WholeRule): boolean {
  return mode === undefined || mode === 'enforce'
}
