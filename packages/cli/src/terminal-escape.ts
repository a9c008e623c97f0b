/** Escapes text from outside for the terminal. */
import { show } from '@sluice/core'

const LINE_LENGTH_MAX = 10_000
/** Characters that JSON leaves unescaped, although a terminal may act on them. */
const UNPRINTABLE = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
const CONTROLS = /(?![\n\t])[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu

/** Keeps line breaks; escapes everything else that could move a cursor. */
export function escapeTerminal(text: string): string {
  return text
    .split('\n')
    .map((line) => show(line, LINE_LENGTH_MAX))
    .join('\n')
}

/** Escapes a document of any length without cutting it. */
export function escapeDocument(text: string): string {
  return text.replace(CONTROLS, escapeChar)
}

export function escapedJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(UNPRINTABLE, escapeChar)
}

function escapeChar(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}
