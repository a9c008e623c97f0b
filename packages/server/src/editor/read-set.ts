/** A whole set as somebody hands it in, as text or as objects: read, or told all that is wrong. */
import { type ParsedRules, parseRules, type Problem, type RuleSet } from '@sluice/core'
import { TimeSlices } from '../time-slices.js'
import { copySet, type GivenRule, isJsonMap, putTogether, takeApart } from './documents.js'
import type { ReadOptions } from '../source/parse-apart.js'
import { LargeSet, readSetText } from './large-set.js'

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

export async function readSet(source: string | object, options: ReadOptions): Promise<ReadSet> {
  if (source instanceof LargeSet) {
    return warmed(finish(source.read.parsed, source.read.plain.value))
  }
  if (typeof source !== 'string') {
    const { file, strict, fromHeaders } = options
    const value = copySet(source)
    return finish(parseRules(value, { file, strict, fromHeaders }), value)
  }
  const { parsed, plain } = await readSetText(source, options)
  // The parser of rules says best what is wrong; what only the other finds is told after it.
  if (parsed.errors.length === 0 && plain.problems.length > 0) {
    return { given: undefined, errors: plain.problems, warnings: parsed.warnings }
  }
  return warmed(finish(parsed, plain.value))
}

/**
 * The rules of a large set were read elsewhere, and are read here once more: one by one, so that
 * calls are decided in between. The parser does not read again what it knows.
 */
async function warmed(read: ReadSet): Promise<ReadSet> {
  const slices = new TimeSlices()
  for (const rule of read.given?.rules ?? []) {
    if (slices.isOver()) await slices.pause()
    parseRules([putTogether(rule)])
  }
  return read
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
