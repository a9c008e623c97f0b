/** One rule as a person writes it, in YAML or JSON: read, with the place of every problem. */
import type { Problem } from '@sluice/core'
import { parseSetText } from './worker-parse.js'

/** What stands before each line, so that the text is the only rule of a list. */
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
  // The parser of rules says best what is wrong; what only the other finds is told after it.
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

/** Its place in the text as it was written, which began two columns further left. */
function asWritten(problem: Problem): Problem {
  if (problem.line === undefined || problem.column === undefined) return problem
  const column = Math.max(1, problem.column - FIRST.length)
  const message = problem.message.replace(PLACE, `${problem.line}:${column}: `)
  return { ...problem, column, message }
}
