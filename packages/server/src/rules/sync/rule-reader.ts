/**
 * Parses the rules of a catalog into a set that can be activated. A rule that is invalid, because
 * the store was edited by hand, keeps its last good version and does not affect other rules.
 */
import type { ParsedRules, RuleContext } from '@sluice/core'
import { type SetFields, setFieldsOf } from '../store/records.js'
import type { RuleCatalog } from './rule-catalog.js'
import type { RuleParser, WholeRule } from './rule-parser.js'
import { CooperativeYield } from '../../lib/cooperative-yield.js'
import { isJsonMap } from '../../lib/json-map.js'

/** Whether a rule is in a timed shadow; without an id, whether all rules are. */
type IsShadowed = (id?: string) => boolean

export interface RuleReadResult {
  readonly parsed: ParsedRules
  /** The documents that were parsed, by id. */
  readonly documents: ReadonlyMap<string, WholeRule>
  readonly fields: SetFields
  /** Why rules of the catalog are invalid, by id. */
  readonly refused: ReadonlyMap<string, string>
}

/**
 * A larger set is searched for warnings only at the start: the editor reports those of a change,
 * and finding them again here would delay calls.
 */
const COMPARED_MAX = 1000

export class RuleReader {
  readonly #ruleContext: RuleContext | undefined
  #hasRead = false
  /** Rules with mode `shadow`, by their document: the same object each time, so parsed once. */
  readonly #shadowed = new WeakMap<WholeRule, WholeRule>()

  constructor(ruleContext?: RuleContext) {
    this.#ruleContext = ruleContext
  }

  /**
   * `activeDocuments` holds the last good documents, by id, which replace invalid ones. Enforced
   * rules that are in a timed shadow (`isShadowed`) are parsed with mode `shadow`, and so is `shed`
   * if all rules are; the returned documents are unchanged.
   */
  async read(
    catalog: RuleCatalog,
    activeDocuments: ReadonlyMap<string, WholeRule>,
    isShadowed: IsShadowed = () => false,
  ): Promise<RuleReadResult> {
    const slices = new CooperativeYield()
    const { parser } = catalog
    const documents = new Map<string, WholeRule>()
    const refused = new Map<string, string>()
    for (const rule of catalog.rules()) {
      const { id } = rule.document
      // Each rule alone, with pauses for decisions: the set below does not parse it again.
      if (slices.isDue()) await slices.pause()
      const { errors } = parser.parseRule(rule)
      const isGood = errors.length === 0
      if (!isGood) refused.set(id, errors.map(({ message }) => message).join('; '))
      const document = isGood ? parser.combine(rule) : activeDocuments.get(id)
      if (document !== undefined) documents.set(id, document)
    }
    if (slices.isDue()) await slices.pause()
    const compare = !this.#hasRead || documents.size <= COMPARED_MAX
    this.#hasRead = true
    const fields = setFieldsOf(catalog.set)
    const parsed = this.parse(parser, { documents, fields }, { isShadowed, compare })
    return { parsed, documents, fields, refused }
  }

  /** Parses documents that were read before, with the timed shadows of now. */
  parse(
    parser: RuleParser,
    { documents, fields }: Pick<RuleReadResult, 'documents' | 'fields'>,
    {
      isShadowed,
      compare = false,
    }: { readonly isShadowed: IsShadowed; readonly compare?: boolean },
  ): ParsedRules {
    const rules = [...documents.values()].map((rule) =>
      isShadowed(rule.id) && isEnforced(rule) ? this.shadowed(rule) : rule,
    )
    const set = isShadowed() ? withShadowedShed(fields) : fields
    return parser.parseSet({ ...set, rules }, { ...this.#ruleContext, compare })
  }

  private shadowed(rule: WholeRule): WholeRule {
    const known = this.#shadowed.get(rule)
    if (known !== undefined) return known
    const shadowed = { ...rule, mode: 'shadow' }
    this.#shadowed.set(rule, shadowed)
    return shadowed
  }
}

/** A process that sheds refuses calls too. */
function withShadowedShed(fields: SetFields): SetFields {
  const { shed } = fields
  return isJsonMap(shed) && isEnforced(shed)
    ? { ...fields, shed: { ...shed, mode: 'shadow' } }
    : fields
}

function isEnforced({ mode }: Readonly<Record<string, unknown>>): boolean {
  return mode === undefined || mode === 'enforce'
}
