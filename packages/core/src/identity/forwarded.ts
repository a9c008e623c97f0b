/**
 * Parses the two headers in which proxies forward the client address, as lists of addresses in the
 * order written: the nearest hop is last. An entry that is not an address is undefined and keeps
 * its place, because a search from the right has to stop there.
 */
import { type Address, parseAddress } from './address.js'

/** No real chain is longer; a caller could send thousands. */
const ENTRIES_MAX = 64

const TAB = 9
const SPACE = 32
const QUOTE = 34
const COMMA = 44
const COLON = 58
const SEMICOLON = 59
const EQUALS = 61
const BACKSLASH = 92
const DELETE = 127
/** The characters of an HTTP token besides letters and digits. */
const TOKEN_MARKS = "!#$%&'*+-.^_`|~"

/**
 * X-Forwarded-For. Lines form one list, in order; only its last 64 entries are read. An entry is an
 * address, `a.b.c.d:port`, `[v6]` or `[v6]:port`.
 */
export function parseForwardedFor(lines: readonly string[]): readonly (Address | undefined)[] {
  const nearestFirst: (Address | undefined)[] = []
  for (let index = lines.length - 1; index >= 0; index--) {
    const line = lines[index] ?? ''
    let end = line.length
    while (end >= 0 && nearestFirst.length < ENTRIES_MAX) {
      const comma = end === 0 ? -1 : line.lastIndexOf(',', end - 1)
      nearestFirst.push(parseEntry(trim(line, comma + 1, end)))
      end = comma
    }
  }
  return nearestFirst.reverse()
}

/**
 * Forwarded (RFC 7239): the `for` of each element. `unknown`, `_hidden` and an absent `for` are
 * undefined. A field that breaks the grammar is a single undefined: after an unclosed quote it is
 * unknown which hop wrote what.
 */
export function parseForwarded(lines: readonly string[]): readonly (Address | undefined)[] {
  const nodes: string[] = []
  for (const line of lines) {
    const cursor: Cursor = { text: line, at: 0 }
    do {
      const node = readElement(cursor)
      if (node === undefined) return [undefined]
      nodes.push(node)
    } while (skip(cursor, COMMA))
    if (cursor.at < line.length) return [undefined]
  }
  return nodes.slice(-ENTRIES_MAX).map((node) => parseNode(node, isNodePort))
}

/** HTTP allows spaces and tabs around the commas of a list, and nothing else. */
function trim(line: string, start: number, end: number): string {
  let from = start
  let to = end
  while (from < to && isBlank(line.charCodeAt(from))) from++
  while (to > from && isBlank(line.charCodeAt(to - 1))) to--
  return line.slice(from, to)
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB
}

function parseEntry(entry: string): Address | undefined {
  return parseAddress(entry) ?? parseNode(entry, isPort)
}

/**
 * Parses `a.b.c.d`, `a.b.c.d:port`, `[v6]` or `[v6]:port`; the port is checked, then dropped. IPv6
 * needs brackets, because `2001:db8::1:80` would be ambiguous.
 */
function parseNode(node: string, isPortText: (port: string) => boolean): Address | undefined {
  const isBracketed = node.startsWith('[')
  const mark = node.indexOf(isBracketed ? ']' : ':')
  const end = mark === -1 ? node.length : mark
  const host = node.slice(isBracketed ? 1 : 0, end)
  const rest = node.slice(isBracketed ? end + 1 : end)
  if (isBracketed && (mark === -1 || !host.includes(':'))) return undefined
  if (rest !== '' && (rest.charCodeAt(0) !== COLON || !isPortText(rest.slice(1)))) return undefined
  return parseAddress(host)
}

function isPort(text: string): boolean {
  if (text.length < 1 || text.length > 5) return false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 48 || code > 57) return false
  }
  return Number(text) <= 65_535
}

function isNodePort(text: string): boolean {
  return isPort(text) || isObfuscated(text)
}

/** RFC 7239 lets a proxy hide a port behind a name that begins with `_`. */
function isObfuscated(text: string): boolean {
  if (text.length < 2 || text.charCodeAt(0) !== 95) return false
  for (let at = 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (!isAlphanumeric(code) && code !== 45 && code !== 46 && code !== 95) return false
  }
  return true
}

function isAlphanumeric(code: number): boolean {
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122)
}

/** A position in a line. Each `read` and `skip` advances it. */
interface Cursor {
  readonly text: string
  at: number
}

/**
 * Reads one hop, pairs between semicolons. Returns the value of `for`, '' without one, undefined if
 * malformed.
 */
function readElement(cursor: Cursor): string | undefined {
  let node: string | undefined
  do {
    skipBlanks(cursor)
    const name = readToken(cursor)
    if (name === '') continue
    if (!skip(cursor, EQUALS)) return undefined
    const value = readValue(cursor)
    if (value === undefined) return undefined
    skipBlanks(cursor)
    if (name.toLowerCase() !== 'for') continue
    // With two, parsers would disagree on which one counts.
    if (node !== undefined) return undefined
    node = value
  } while (skip(cursor, SEMICOLON))
  return node ?? ''
}

/** Reads a token or a quoted string; undefined if there is neither. */
function readValue(cursor: Cursor): string | undefined {
  if (!skip(cursor, QUOTE)) return readToken(cursor) || undefined
  let value = ''
  while (cursor.at < cursor.text.length) {
    if (skip(cursor, QUOTE)) return value
    skip(cursor, BACKSLASH)
    const code = cursor.text.charCodeAt(cursor.at)
    if ((code < SPACE && code !== TAB) || code === DELETE) return undefined
    value += cursor.text.charAt(cursor.at)
    cursor.at++
  }
  return undefined
}

function readToken(cursor: Cursor): string {
  const start = cursor.at
  while (isTokenCharacter(cursor.text.charCodeAt(cursor.at))) cursor.at++
  return cursor.text.slice(start, cursor.at)
}

function isTokenCharacter(code: number): boolean {
  return isAlphanumeric(code) || (code > SPACE && TOKEN_MARKS.includes(String.fromCharCode(code)))
}

function skipBlanks(cursor: Cursor): void {
  while (isBlank(cursor.text.charCodeAt(cursor.at))) cursor.at++
}

function skip(cursor: Cursor, code: number): boolean {
  if (cursor.text.charCodeAt(cursor.at) !== code) return false
  cursor.at++
  return true
}
