/** Parses the YAML or JSON text of one rule, with the place of every problem. */
import type { Problem } from '@sluice/core'
import { parseSetText } from './worker-parse.js'

/** Prefixes of the lines, which make the text the only rule of a list. */
const FIRST = '- '
const OTHERS = ' '.repeat(FIRST.length)

export interface RuleText {
  /** Undefined if there are errors. */
  readonly document: unknown
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
}

export async function readRuleText(text: string): Promise<RuleText> {
  const { parsed, plain } = await parseSetText(asList(text), {})
  const { errors, warnings } = parsed
  const findings = { errors: errors.map(asWritten), warnings: warnings.map(asWritten) }
  if (errors.length > 0) return { document: undefined, ...findings }
  const { value, problems } = plain
  // Errors of the rule parser are clearer, so those of the data parser come second.
  if (problems.length > 0) {
    return { document: undefined, errors: problems.map(asWritten), warnings: findings.warnings }
  }
  return { document: Array.isArray(value) ? value[0] : undefined, ...findings }
}

function asList(text: string): string {
  const lines = text.replace(/^\ufeff/, '').split('\n')
  return lines.map((line, index) => (index === 0 ? FIRST : OTHERS) + line).join('\n')
}

const PLACE = /^\d+:\d+: /

/** Returns the problem with its column in the original text, without the prefix. */
function asWritten(problem: Problem): Problem {
  if (problem.line === undefined || problem.column === undefined) return problem
  const column = Math.max(1, problem.column - FIRST.length)
  const message = problem.message.replace(PLACE, `${problem.line}:${column}: `)
  return { ...problem, column, message }
}
