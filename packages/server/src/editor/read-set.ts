/** A whole set as somebody hands it in, as text or as objects: read, or told all that is wrong. */
import { type ParsedRules, parseRules, type Problem, type RuleSet } from '@sluice/core'
import { readApart } from '../source/parse-apart.js'
import { copySet, type GivenRule, isJsonMap, takeApart } from './documents.js'

export interface GivenSet {
  readonly routes: readonly unknown[]
  readonly strictPaths: boolean
  readonly rules: readonly GivenRule[]
  /** What the parser made of it. */
  readonly parsed: RuleSet
}

export interface ReadSet {
  /** Undefined if there are errors. */
  readonly given: GivenSet | undefined
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
}

interface ReadOptions {
  readonly file?: string | undefined
  readonly strict?: boolean | undefined
}

export async function readSet(source: string | object, options: ReadOptions): Promise<ReadSet> {
  const { file, strict } = options
  if (typeof source !== 'string') {
    const value = copySet(source)
    return finish(parseRules(value, { file, strict }), value)
  }
  const { parsed, plain } = await readApart(source, file, strict)
  // The parser of rules says best what is wrong; what only the other finds is told after it.
  if (parsed.errors.length === 0 && plain.problems.length > 0) {
    return { given: undefined, errors: plain.problems, warnings: parsed.warnings }
  }
  return finish(parsed, plain.value)
}

function finish({ rules, errors, warnings }: ParsedRules, value: unknown): ReadSet {
  if (rules === undefined) return { given: undefined, errors, warnings }
  const list: unknown = isJsonMap(value) ? value['rules'] : value
  const routes: unknown = isJsonMap(value) ? value['routes'] : undefined
  const given = {
    routes: Array.isArray(routes) ? routes : [],
    strictPaths: rules.strictPaths,
    rules: Array.isArray(list) ? list.map(takeApart) : [],
    parsed: rules,
  }
  return { given, errors, warnings }
}
