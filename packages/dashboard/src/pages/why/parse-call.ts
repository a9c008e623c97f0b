/**
 * What somebody pastes to ask "why?": attributes line by line, a JSON object, a command of curl, a
 * line of our log. Made into the attributes of a call, with what could not be taken along.
 */
import type { Attributes } from '@sluice/client'
import { isRecord } from '../rules/rule-text.js'
import { parseCurl } from './parse-curl.js'
import {
  type ParsedCall,
  badNameFailure,
  failure,
  NAME,
  parseCallObject,
} from './parse-call-object.js'

/** As many as the server takes. */
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
  return failure(`found ${entries.length} attributes; accepted: up to ${ATTRIBUTES_MAX}`)
}

function parseJson(text: string): ParsedCall {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return failure('This begins like JSON but is none: a quote, comma or bracket is missing')
  }
  return isRecord(value) ? parseCallObject(value) : failure('accepted: a JSON object')
}

/** `user=u1`, several in one line with blanks between; `user: u1` alone. */
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

/** A value goes on to the next name: it may have blanks in it, and any text in quotes. */
const PAIR = /(?:=\s*"[^"]*"|(?!\s+[a-z][a-z0-9_.-]*=)[^])+/g

function pairsOf(line: string): readonly string[] {
  return line.includes('=') ? (line.match(PAIR) ?? []).map((pair) => pair.trim()) : [line]
}

function unquote(value: string): string {
  const [, inside] = /^(?:"(.*)"|'(.*)')$/s.exec(value)?.filter((part) => part !== undefined) ?? []
  return inside ?? value
}

/** Attributes as the field has them: what a link, and a way here from another page, fills in. */
export function attributesText(attributes: Attributes): string {
  return Object.entries(attributes)
    .map(
      ([name, value]) =>
        `${name}=${/^\s|\s$|\s[a-z][a-z0-9_.-]*=/.test(value) ? `"${value}"` : value}`,
    )
    .join('\n')
}
