/**
 * Parses what the user pastes: attributes line by line, a JSON object, a curl command or a log
 * line. The result is a call, with notes about what could not be used.
 */
import type { Attributes } from '@sluice/client'
import { isRecord } from '@sluice/core/text'
import { parseCurl } from './parse-curl.js'
import {
  type ParsedCall,
  badNameFailure,
  failure,
  NAME,
  parseCallObject,
} from './parse-call-object.js'

/** The server accepts no more. */
const ATTRIBUTES_MAX = 64

export function parseCall(text: string): ParsedCall {
  const trimmed = text.trim()
  if (trimmed === '') return { attributes: {}, notes: [] }
  if (trimmed.startsWith('{')) return checkCount(parseJson(trimmed))
  if (/^(?:\$\s+)?curl\s/.test(trimmed)) return checkCount(parseCurl(trimmed))
  return checkCount(parseLines(trimmed))
}

function checkCount(call: ParsedCall): ParsedCall {
  const entries = Object.entries(call.attributes)
  if (entries.length <= ATTRIBUTES_MAX) return call
  return failure(`Found ${entries.length} attributes; at most ${ATTRIBUTES_MAX} are accepted`)
}

function parseJson(text: string): ParsedCall {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return failure('Invalid JSON: a quote, comma or bracket is missing')
  }
  return isRecord(value) ? parseCallObject(value) : failure('Enter a JSON object')
}

/** `user=u1`, several in one line separated by spaces; or `user: u1`, one per line. */
function parseLines(text: string): ParsedCall {
  const attributes: Record<string, string> = {}
  for (const line of text.split('\n').map((each) => each.trim())) {
    if (line === '' || line.startsWith('#')) continue
    for (const pair of pairsOf(line)) {
      const [, name = '', value = ''] = /^([^=:\s]+)\s*[=:]\s*([^]*)$/.exec(pair) ?? []
      if (!NAME.test(name)) return badNameFailure(name === '' ? pair : name)
      const plain = unquote(value)
      if (plain !== '') attributes[name] = plain
    }
  }
  return { attributes, notes: [] }
}

/** A value ends at the next name: it may contain spaces, and any text in quotes. */
const PAIR = /(?:=\s*"[^"]*"|(?!\s+[a-z][a-z0-9_.-]*=)[^])+/g

function pairsOf(line: string): readonly string[] {
  return line.includes('=') ? (line.match(PAIR) ?? []).map((pair) => pair.trim()) : [line]
}

function unquote(value: string): string {
  const [, inside] = /^(?:"(.*)"|'(.*)')$/s.exec(value)?.filter((part) => part !== undefined) ?? []
  return inside ?? value
}

/** Attributes as text for the input field; the inverse of `parseCall`. */
export function attributesText(attributes: Attributes): string {
  return Object.entries(attributes)
    .map(
      ([name, value]) =>
        `${name}=${/^\s|\s$|\s[a-z][a-z0-9_.-]*=/.test(value) ? `"${value}"` : value}`,
    )
    .join('\n')
}
