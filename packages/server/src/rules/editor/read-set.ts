/** Parses a whole set that was sent as text or as objects. */
import type { ParsedRules, Problem, RuleSet } from '@sluice/core'
import { CooperativeYield } from '../../lib/cooperative-yield.js'
import { isJsonMap } from '../../lib/json-map.js'
import { optionalSetFields, type SetFields } from '../store/records.js'
import { copySet, type RuleInput, separateRule } from './rule-documents.js'
import type { RuleParser } from '../sync/rule-parser.js'
import type { ParseTextOptions } from '../sync/parse-in-worker.js'
import { LargeSet, parseSetText } from './worker-parse.js'

export interface SetInput extends SetFields {
  readonly rules: readonly RuleInput[]
  /** The parsed set. */
  readonly parsed: RuleSet
}

export interface SetReadResult {
  /** Undefined if there are errors. */
  readonly input: SetInput | undefined
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
}

export async function readSet(
  parser: RuleParser,
  source: string | object,
  options: ParseTextOptions,
): Promise<SetReadResult> {
  if (source instanceof LargeSet) {
    return warmParser(parser, finish(source.read.parsed, source.read.plain.value))
  }
  if (typeof source !== 'string') {
    const { file, strict, ruleContext } = options
    const value = copySet(source)
    return finish(parser.parseSet(value, { ...ruleContext, file, strict }), value)
  }
  const { parsed, plain } = await parseSetText(source, options)
  // Errors of the rule parser are clearer, so those of the data parser come second.
  if (parsed.errors.length === 0 && plain.problems.length > 0) {
    return { input: undefined, errors: plain.problems, warnings: parsed.warnings }
  }
  return warmParser(parser, finish(parsed, plain.value))
}

/**
 * Parses the rules of a large set again, one by one, so that calls are decided in between. They
 * were parsed in another thread, whose results this thread's parser does not have.
 */
async function warmParser(parser: RuleParser, read: SetReadResult): Promise<SetReadResult> {
  const slices = new CooperativeYield()
  for (const rule of read.input?.rules ?? []) {
    if (slices.isDue()) await slices.pause()
    parser.parseRule(rule)
  }
  return read
}

function finish({ rules, errors, warnings }: ParsedRules, value: unknown): SetReadResult {
  if (rules === undefined) return { input: undefined, errors, warnings }
  const fields = isJsonMap(value) ? value : { rules: value }
  const { routes, rules: list } = fields
  const input = {
    routes: Array.isArray(routes) ? routes : [],
    strictPaths: rules.strictPaths,
    ...optionalSetFields(fields),
    rules: Array.isArray(list) ? list.map(separateRule) : [],
    parsed: rules,
  }
  return { input, errors, warnings }
}
