/** Rules as `createLimiter` and `setRules` take them: text, or the same as objects. */
import {
  type CompileOptions,
  compileRules,
  type ParsedRules,
  parseRules,
  type Problem,
  type Snapshot,
  SluiceError,
} from '@sluice/core'

/** YAML or JSON text, a list of rules, or `{ routes, strictPaths, rules }`. */
export type RulesInput = string | object

export class RulesError extends SluiceError {
  /** Every error of the set, each with its place. */
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    const count = `${problems.length} ${problems.length === 1 ? 'error' : 'errors'} in the rules`
    super('RULES_INVALID', [count, ...problems.map(({ message }) => message)].join('\n'))
    this.problems = problems
  }
}

export interface LoadedRules {
  readonly snapshot: Snapshot
  /** What it was compiled from, in case the key of all hashes changes. */
  readonly parsed: ParsedRules
}

interface LoadOptions extends CompileOptions {
  /** What was in force: standalone overrides go on. */
  readonly before: Snapshot | undefined
}

/** Throws a RulesError that names every error, and then nothing is replaced. */
export function loadRules(
  input: RulesInput,
  options: LoadOptions & { readonly file: string | undefined },
): LoadedRules {
  const { file } = options
  // A user may change an object of its own in place and hand it in again.
  return compileParsed(parseRules(input, { file }), options)
}

/** The same for rules that were parsed before, perhaps in another thread. */
export function compileParsed(parsed: ParsedRules, options: LoadOptions): LoadedRules {
  const { rules, errors } = parsed
  if (rules === undefined) throw new RulesError(errors)
  return { snapshot: compileRules(rules, options, options.before), parsed }
}
