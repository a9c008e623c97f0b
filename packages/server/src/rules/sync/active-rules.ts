/** Activates the valid rules and overrides of a catalog in a limiter, in one step. */
import type { ParsedRules, Rule, RuleContext } from '@sluice/core'
import type { Limiter } from '@sluice/limiter'
import type { Log } from '../../observability/log/logger.js'
import type { OverrideDocument } from '../store/records.js'
import { readOverrides, type ParsedOverrides, type RefusedOverride } from './override-reader.js'
import type { CatalogUpdate, RuleCatalog } from './rule-catalog.js'
import type { RuleParser, WholeRule } from './rule-parser.js'
import { type RuleReadResult, RuleReader } from './rule-reader.js'
import type { TimedShadow } from './timed-shadow.js'
import { compareRules, logNoRules, logWeakenings } from './weakened-rules.js'

/** Documents that stay active in place of invalid ones in the store. */
export interface LastGoodVersions {
  readonly rules: readonly WholeRule[]
  readonly overrides: readonly { readonly key: string; readonly document: OverrideDocument }[]
}

export const NO_LAST_GOOD_VERSIONS: LastGoodVersions = { rules: [], overrides: [] }

interface ActiveRulesDeps {
  readonly limiter: Pick<Limiter, 'setParsedRules' | 'changeOverrides' | 'replaceOverrides'>
  readonly log: Log
  /** Which enforced rules refuse no call for now. @default none */
  readonly shadow?: Pick<TimedShadow, 'until' | 'state'> | undefined
  /** What is known of this node. @default nothing */
  readonly ruleContext?: RuleContext | undefined
}

/** Of a store full of errors, only the first are logged. */
const PROBLEMS_LOGGED = 20

export class ActiveRules {
  readonly #deps: ActiveRulesDeps
  readonly #reader: RuleReader
  #byId: ReadonlyMap<string, Rule> = new Map()
  /** The documents that `#byId` was parsed from. */
  #documents: ReadonlyMap<string, WholeRule> = new Map()
  #fields: RuleReadResult['fields'] = { routes: [], strictPaths: false }
  /** State of the timed shadow when the rules were read. */
  #shadowState = ''
  #refusedRules: ReadonlyMap<string, string> = new Map()
  #refusedOverrides: ReadonlyMap<string, RefusedOverride> = new Map()
  /** Why the set as a whole is invalid. */
  #setProblems: readonly string[] = []
  #warned: ReadonlySet<string> = new Set()
  #isReady = false
  /** Whether the limiter may lack some of the rules, so that the next pass sends all of them. */
  #needsFullReload = true
  #failures = 0

  constructor(deps: ActiveRulesDeps) {
    this.#deps = deps
    this.#reader = new RuleReader(deps.ruleContext)
  }

  get isReady(): boolean {
    return this.#isReady
  }

  get ruleCount(): number {
    return this.#byId.size
  }

  /** Whether the next `activate` is needed even if nothing changed. */
  get needsFullReload(): boolean {
    return this.#needsFullReload
  }

  /** Whether the rules were read while other timed shadows were active than now. */
  get isShadowStale(): boolean {
    return this.#isReady && this.shadowState() !== this.#shadowState
  }

  get failures(): number {
    return this.#failures
  }

  problem(): string | undefined {
    const [setProblem] = this.#setProblems
    if (setProblem !== undefined) return `the active rules stay: ${setProblem}`
    const count = this.#refusedRules.size + this.#refusedOverrides.size
    const [first] = [...this.#refusedRules.values(), ...problemsOf(this.#refusedOverrides).values()]
    if (first === undefined) return undefined
    return count === 1 ? first : `${first} (and ${count - 1} more)`
  }

  lastGoodVersions(): LastGoodVersions {
    return {
      rules: [...this.#refusedRules.keys()].flatMap((id) => this.#documents.get(id) ?? []),
      overrides: [...this.#refusedOverrides].flatMap(([key, { lastGood }]) =>
        lastGood === undefined ? [] : { key, document: lastGood },
      ),
    }
  }

  /** Restores those of an earlier process, before the first `activate`. */
  useLastGoodVersions({ rules, overrides }: LastGoodVersions): void {
    this.#documents = new Map(rules.map((rule) => [rule.id, rule]))
    this.#refusedOverrides = new Map(
      overrides.map(({ key, document }) => [key, { problem: '', lastGood: document }]),
    )
  }

  /**
   * Resolves to whether the active rules are those of the catalog, apart from invalid ones.
   * `alongside` runs in the same step as the rules change, even if the set as a whole is invalid.
   */
  async activate(
    catalog: RuleCatalog,
    update: CatalogUpdate,
    alongside: () => void,
  ): Promise<boolean> {
    const needsFullReload = this.#needsFullReload
    // Set before reading, which may throw: no later update repeats what the catalog holds now.
    this.#needsFullReload = true
    const isRead =
      needsFullReload || update.rulesChanged || this.#setProblems.length > 0 || this.isShadowStale
    // Taken before the rules are read, so that a shadow that ends meanwhile is found stale.
    const shadowState = this.shadowState()
    const set = isRead ? refuseUnusableSet(await this.read(catalog)) : undefined
    const isRefused = set !== undefined && set.parsed.rules === undefined
    const parsed = isRefused ? this.reparseWithoutShadow(catalog.parser) : set?.parsed
    const before = needsFullReload ? NO_RULES : this.#byId
    const after = parsed?.rules === undefined ? this.#byId : byId(parsed.rules.rules)
    const refused = this.#refusedOverrides
    const overrides = await readOverrides({ catalog, update, before, after, refused })
    // From here to the end of `alongside` is synchronous, so no decision sees half of the change.
    if (parsed?.rules !== undefined) this.#deps.limiter.setParsedRules(parsed)
    this.activateOverrides(overrides, needsFullReload)
    alongside()
    this.#needsFullReload = false
    if (parsed?.rules !== undefined) this.#shadowState = shadowState
    if (set !== undefined) this.recordSet(set, after)
    this.recordOverrides(overrides)
    return this.#setProblems.length === 0
  }

  private read(catalog: RuleCatalog): Promise<RuleReadResult> {
    return this.#reader.read(catalog, this.#documents, this.#isShadowed)
  }

  readonly #isShadowed = (rule?: string) => this.#deps.shadow?.until(rule) !== undefined

  private shadowState(): string {
    return this.#deps.shadow?.state() ?? ''
  }

  /** Reparses the active rules where a shadow ended: an invalid set must not keep it going. */
  private reparseWithoutShadow(parser: RuleParser): ParsedRules | undefined {
    if (!this.isShadowStale) return undefined
    const active = { documents: this.#documents, fields: this.#fields }
    return this.#reader.parse(parser, active, { isShadowed: this.#isShadowed })
  }

  private activateOverrides({ changes }: ParsedOverrides, isAll: boolean): void {
    if (isAll) this.#deps.limiter.replaceOverrides(changes)
    else if (changes.length > 0) this.#deps.limiter.changeOverrides(changes)
  }

  private recordSet(set: RuleReadResult, rules: ReadonlyMap<string, Rule>): void {
    const { parsed, documents, fields, refused } = set
    const { log } = this.#deps
    this.logRefused('rule invalid: previous version stays active', this.#refusedRules, refused)
    this.#refusedRules = refused
    if (parsed.rules === undefined) {
      this.#byId = rules
      this.refuseSet(parsed)
      return
    }
    this.#setProblems = []
    this.#documents = documents
    this.#fields = fields
    const isNews = !this.#isReady || this.#byId.size > 0
    if (rules.size === 0 && isNews) logNoRules(log, {})
    if (this.#isReady) logWeakenings(log, compareRules(this.#byId, this.unshadowed(rules)), {})
    this.#byId = rules
    this.#isReady = true
    const warnings = parsed.warnings.map(({ message }) => message)
    for (const problem of warnings) if (!this.#warned.has(problem)) log.warn({ problem }, WARNING)
    this.#warned = new Set(warnings)
  }

  /** Returns rules with the modes they had before a timed shadow, which logs its own warnings. */
  private unshadowed(rules: ReadonlyMap<string, Rule>): ReadonlyMap<string, Rule> {
    return new Map(
      Array.from(rules, ([id, rule]) => {
        const isTimed = rule.mode === 'shadow' && this.#isShadowed(id)
        const mode = isTimed ? (this.#byId.get(id)?.mode ?? rule.mode) : rule.mode
        return [id, { ...rule, mode }]
      }),
    )
  }

  private refuseSet({ errors }: ParsedRules): void {
    const problems = errors.map(({ message }) => message)
    const isNew = problems.join('\n') !== this.#setProblems.join('\n')
    this.#setProblems = problems
    if (!isNew) return
    this.#failures++
    for (const problem of problems.slice(0, PROBLEMS_LOGGED)) {
      this.#deps.log.error({ problem }, 'rules invalid: active rules stay')
    }
  }

  private recordOverrides({ refused }: ParsedOverrides): void {
    const message = 'override invalid: previous version stays active'
    this.logRefused(message, problemsOf(this.#refusedOverrides), problemsOf(refused))
    this.#refusedOverrides = refused
  }

  private logRefused(
    message: string,
    before: ReadonlyMap<string, string>,
    now: ReadonlyMap<string, string>,
  ): void {
    let logged = 0
    for (const [id, problem] of now) {
      if (before.get(id) === problem) continue
      this.#failures++
      if (logged++ < PROBLEMS_LOGGED) this.#deps.log.error({ id, problem }, message)
    }
  }
}

const WARNING = 'rules warning'

/** A set of which every rule is invalid is refused: without rules it would allow every call. */
function refuseUnusableSet(set: RuleReadResult): RuleReadResult {
  const [first] = set.refused.values()
  if (first === undefined || set.documents.size > 0) return set
  const found = `${set.refused.size} rules, none of which can be used`
  const accepted = 'one good rule, or none at all'
  const message = `found ${found}; accepted: ${accepted}. The first: ${first}`
  const problem = { code: 'empty', field: 'rules', found, accepted, message } as const
  return { ...set, parsed: { rules: undefined, errors: [problem], warnings: [] } }
}
const NO_RULES: ReadonlyMap<string, Rule> = new Map()

function byId(rules: readonly Rule[]): ReadonlyMap<string, Rule> {
  return new Map(rules.map((rule) => [rule.id, rule]))
}

function problemsOf(refused: ReadonlyMap<string, RefusedOverride>): ReadonlyMap<string, string> {
  return new Map(Array.from(refused, ([key, { problem }]) => [key, problem]))
}
