/** Text of somebody else's, as a terminal may have it. */
import { show } from '@sluice/core'

const LINE_LENGTH_MAX = 10_000
/** What JSON leaves as it is, though a terminal may act on it. */
const UNPRINTABLE = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
const CONTROLS = /(?![\n\t])[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu

/** Its lines stay lines; whatever else could move a cursor is escaped. */
export function escapeTerminal(text: string): string {
  return text
    .split('\n')
    .map((line) => show(line, LINE_LENGTH_MAX))
    .join('\n')
}

/** A document of any length: nothing is cut. */
export function escapeDocument(text: string): string {
  return text.replace(CONTROLS, escapeChar)
}

export function escapedJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(UNPRINTABLE, escapeChar)
}

function escapeChar(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}
