/** Where in a text a problem of a rule is. */
import type { ProblemView } from '@sluice/client'

export interface Place {
  readonly line: number
  readonly column: number
}

/** As it was told; else, of one that only the whole set has, where its field begins. */
export function placeOf({ line, column, field }: ProblemView, text: string): Place | undefined {
  if (line !== undefined) return { line, column: column ?? 1 }
  const name = /^[a-zA-Z]+/.exec(field)?.[0]
  if (name === undefined) return undefined
  const at = text.split('\n').findIndex((each) => each.startsWith(`${name}:`))
  return at === -1 ? undefined : { line: at + 1, column: 1 }
}

/** Of a place in a text, for the selection of a field. */
export function offsetOf({ line, column }: Place, text: string): number {
  const lines = text.split('\n')
  const before = lines.slice(0, line - 1).reduce((total, each) => total + each.length + 1, 0)
  return Math.min(text.length, before + column - 1)
}

/** What the problem is, without the place and the rule, which stand beside it. */
export function messageOf({ message, rule }: ProblemView): string {
  const bare = message.replace(/^(?:\d+:\d+: )/, '')
  const prefix = rule === undefined ? '' : `rule "${rule}": `
  return bare.startsWith(prefix) ? bare.slice(prefix.length) : bare
}

/** Said aloud when the text was looked at. */
export function verdictOf(errors: number, warnings: number): string {
  const of = (number: number, word: string) => `${number} ${word}${number === 1 ? '' : 's'}`
  if (errors > 0)
    return warnings > 0 ? `${of(errors, 'error')}, ${of(warnings, 'warning')}` : of(errors, 'error')
  return warnings > 0 ? `Valid, with ${of(warnings, 'warning')}` : 'Valid'
}
