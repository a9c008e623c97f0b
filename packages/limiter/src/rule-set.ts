/** Loads rules as `createLimiter` and `setRules` accept them: text, or objects. */
import {
  type CompileOptions,
  compileRules,
  type ParsedRules,
  parseRules,
  type Problem,
  type RuleSet,
  type Snapshot,
  SluiceError,
} from '@sluice/core'

/** YAML or JSON text, a list of rules, or `{ routes, strictPaths, rules }`. */
export type RulesInput = string | object

export class RulesError extends SluiceError {
  /** Every error, with its position. */
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    const count = `${problems.length} ${problems.length === 1 ? 'error' : 'errors'} in the rules`
    super('RULES_INVALID', [count, ...problems.map(({ message }) => message)].join('\n'))
    this.problems = problems
  }
}

export interface LoadedRules {
  readonly snapshot: Snapshot
  /** What it was compiled from; needed again when the hash secret changes. */
  readonly parsed: ParsedRules
}

interface LoadOptions extends CompileOptions {
  /** The active rules: their standalone overrides are kept. */
  readonly before: Snapshot | undefined
}

/** Throws a RulesError with every error; then nothing is replaced. */
export function loadRules(
  input: RulesInput,
  options: LoadOptions & { readonly file: string | undefined },
): LoadedRules {
  const { file } = options
  return compileParsed(parseRules(input, { file }), options)
}

/** The same for rules that were already parsed, perhaps in another thread. */
export function compileParsed(parsed: ParsedRules, options: LoadOptions): LoadedRules {
  const { rules, errors } = parsed
  if (rules === undefined) throw new RulesError(errors)
  requireOwnShare(rules, options)
  return { snapshot: compileRules(rules, options, options.before), parsed }
}

/** Without a share of its own, a region would refuse every call of a rule that is split. */
function requireOwnShare({ shares }: RuleSet, { regions }: LoadOptions): void {
  if (shares === undefined || regions === undefined || regions.names.length < 2) return
  if (shares.has(regions.own)) return
  const field = `shares.${regions.own}`
  const accepted = `a share for each region: ${regions.names.join(', ')}`
  const message = `${field}: found no share. Accepted: ${accepted}`
  throw new RulesError([{ code: 'bad-shares', field, found: 'no share', accepted, message }])
}
