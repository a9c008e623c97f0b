/** Positions of rule problems in the text, and their messages. */
import type { ProblemView } from '@sluice/client'

export interface CursorPlace {
  readonly line: number
  readonly column: number
}

/** The position from the server; for a problem of the whole rule set, the line of its field. */
export function problemPlace(
  { line, column, field }: ProblemView,
  text: string,
): CursorPlace | undefined {
  if (line !== undefined) return { line, column: column ?? 1 }
  const name = /^[a-zA-Z]+/.exec(field)?.[0]
  if (name === undefined) return undefined
  const lineIndex = text.split('\n').findIndex((each) => each.startsWith(`${name}:`))
  return lineIndex === -1 ? undefined : { line: lineIndex + 1, column: 1 }
}

/** The offset of a place in the text, for the selection of a text area. */
export function placeOffset({ line, column }: CursorPlace, text: string): number {
  const lines = text.split('\n')
  const before = lines.slice(0, line - 1).reduce((total, each) => total + each.length + 1, 0)
  return Math.min(text.length, before + column - 1)
}

/** The message without position and rule, which are shown separately. */
export function problemMessage({ message, rule }: ProblemView): string {
  const unplaced = message.replace(/^(?:\d+:\d+: )/, '')
  const prefix = rule === undefined ? '' : `rule "${rule}": `
  return unplaced.startsWith(prefix) ? unplaced.slice(prefix.length) : unplaced
}

/** The result of a validation, which screen readers announce. */
export function validationSummary(errors: number, warnings: number): string {
  const countText = (number: number, word: string) => `${number} ${word}${number === 1 ? '' : 's'}`
  if (errors > 0)
    return warnings > 0
      ? `${countText(errors, 'error')}, ${countText(warnings, 'warning')}`
      : countText(errors, 'error')
  return warnings > 0 ? `Valid, with ${countText(warnings, 'warning')}` : 'Valid'
}
