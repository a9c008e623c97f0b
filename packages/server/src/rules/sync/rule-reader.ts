/**
 * From the documents of a book to rules that can be put into force. One that is bad, because
 * somebody wrote into the store by hand, costs that rule its change and no other rule anything.
 */
import type { ParsedRules } from '@sluice/core'
import type { RuleCatalog } from './rule-catalog.js'
import type { RuleParser, WholeRule } from './rule-parser.js'
import { CooperativeYield } from '../../lib/cooperative-yield.js'

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

/**
 * Of a larger set, warnings are looked for at the start only: whoever changes it is told by the
 * editor, and calls need not wait until it is done here too.
 */
const COMPARED_MAX = 1000

export class RuleReader {
  /** Attributes that callers may set themselves, by a header; undefined: not known. */
  readonly fromHeaders: ReadonlySet<string> | undefined
  #hasRead = false
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
    const { parser } = catalog
    const documents = new Map<string, WholeRule>()
    const refused = new Map<string, string>()
    for (const rule of catalog.rules()) {
      const { id } = rule.document
      // Alone, and in turns: what was read so is not read again with the set.
      if (slices.isDue()) await slices.pause()
      const { errors } = parser.parseRule(rule)
      const isGood = errors.length === 0
      if (!isGood) refused.set(id, errors.map(({ message }) => message).join('; '))
      const document = isGood ? parser.combine(rule) : activeDocuments.get(id)
      if (document !== undefined) documents.set(id, document)
    }
    if (slices.isDue()) await slices.pause()
    const { routes, strictPaths } = catalog.set
    const compare = !this.#hasRead || documents.size <= COMPARED_MAX
    this.#hasRead = true
    const paths = { routes, strictPaths }
    const parsed = this.parse(parser, { documents, paths }, { isShadowed, compare })
    return { parsed, documents, paths, refused }
  }

  /** Parses what was read before, as it shall be now. */
  parse(
    parser: RuleParser,
    { documents, paths }: Pick<RuleReadResult, 'documents' | 'paths'>,
    {
      isShadowed,
      compare = false,
    }: { readonly isShadowed: (id: string) => boolean; readonly compare?: boolean },
  ): ParsedRules {
    const rules = [...documents.values()].map((rule) =>
      isShadowed(rule.id) && isEnforced(rule) ? this.shadowed(rule) : rule,
    )
    const { fromHeaders } = this
    return parser.parseSet({ ...paths, rules }, { compare, fromHeaders })
  }

  private shadowed(rule: WholeRule): WholeRule {
    const known = this.#shadowed.get(rule)
    if (known !== undefined) return known
    const shadowed = { ...rule, mode: 'shadow' }
    this.#shadowed.set(rule, shadowed)
    return shadowed
  }
}

function isEnforced({ mode }: WholeRule): boolean {
  return mode === undefined || mode === 'enforce'
}
