/**
 * Paths: the canonical form in which a path is limited, and the patterns that rules match it with.
 *
 * The path that is limited must be the path that is served; otherwise `/%6cogin` bypasses a limit
 * on `/login`. So each path has one form, and a path that servers read differently is refused:
 *
 * - Characters that need no encoding are decoded, `/%6cogin` to `/login` and `/%40me` to `/@me`: a
 *   server that decodes serves the plain path, and one that does not is limited as if it did.
 *   Refusing them would reject honest clients, many of which send `%7E` or `%40`.
 * - All others are encoded, with upper-case digits: browsers send `|` and `[` plain, others `%7c`.
 * - `;` is refused, plain and encoded: some servers drop it and the rest of its segment, others
 *   serve it.
 */
import { show } from './errors.js'

const PATH_LENGTH_MAX = 8192
const PATTERN_LENGTH_MAX = 1024
const PATTERN_SEGMENTS_MAX = 32

const PERCENT = 37
const DOT = 46
const SLASH = 47

const PLAIN = 1
const ENCODED = 2
/** The canonical form of each ASCII character; 0 if it is refused when plain. */
const SPELLING = spellings()

interface PathRefusal {
  readonly ok: false
  readonly reason: string
}

/**
 * Returns the canonical path of a request target, without its query, or the reason for a refusal.
 * `http://host/path` is reduced to its path. Accepted paths are their own canonical form.
 */
export function canonicalPath(
  raw: string,
): { readonly ok: true; readonly path: string } | PathRefusal {
  const found = pathOf(raw)
  if (typeof found !== 'string') return found
  if (found.length > PATH_LENGTH_MAX) return refuseLength(found)
  const path = isPlain(found) ? found : respell(found)
  if (typeof path !== 'string') return path
  if (path.length > PATH_LENGTH_MAX) return refuseLength(path)
  // Checked last, because decoding may produce some of them.
  return findAmbiguity(path) ?? { ok: true, path }
}

type PathSegment = { readonly literal: string } | { readonly param: string }

/** The segments between slashes. A trailing slash is a last, empty literal; `/` is only that. */
export type PathPattern = {
  readonly text: string
  /** Without the `*`. */
  readonly segments: readonly PathSegment[]
  /** Whether one or more segments follow these. */
  readonly wildcard: boolean
}

/**
 * Parses literal segments, `:param` for exactly one segment, and a last `*` for everything below:
 * `/a/*` is `/a/b` and `/a/b/c`, not `/a` or `/a/`, and `/*` is not `/`.
 */
export function parsePattern(text: string): PathPattern | { readonly problem: string } {
  const refused = findTextProblem(text)
  if (refused !== undefined) return { problem: refused }
  const parts = text.slice(1).split('/')
  if (parts.length > PATTERN_SEGMENTS_MAX) {
    return { problem: `found ${parts.length} segments; accepted: up to ${PATTERN_SEGMENTS_MAX}` }
  }
  const wildcard = parts.at(-1) === '*'
  const segments: PathSegment[] = []
  for (const part of wildcard ? parts.slice(0, -1) : parts) {
    if (part.includes('*')) {
      const accepted = '"*" only as the whole last segment'
      return { problem: `found "${show(part)}" in "${show(text)}"; accepted: ${accepted}` }
    }
    if (part.startsWith(':') && !isParamName(part.slice(1))) {
      const accepted = '":" and a name of letters, digits and "_" that begins with no digit'
      return { problem: `found "${show(part)}" in "${show(text)}"; accepted: ${accepted}` }
    }
    segments.push(part.startsWith(':') ? { param: part.slice(1) } : { literal: part })
  }
  return { text, segments, wildcard }
}

/** The form in which paths are compared unless strict: lower case, one trailing slash dropped. */
export function foldPath(path: string): string {
  let hasUpper = false
  let isAscii = true
  for (let at = 0; at < path.length; at++) {
    const code = path.charCodeAt(at)
    if (code >= 65 && code <= 90) hasUpper = true
    else if (code > 127) isAscii = false
  }
  const end = path.length > 1 && path.endsWith('/') ? path.length - 1 : path.length
  const trimmed = end === path.length ? path : path.slice(0, end)
  if (!hasUpper) return trimmed
  // ASCII only: beyond it, lower case merges characters that servers distinguish (the Kelvin sign
  // becomes a k).
  return isAscii ? trimmed.toLowerCase() : trimmed.replace(/[A-Z]+/g, (run) => run.toLowerCase())
}

/** Whether one pattern matches a canonical path; slow and simple. */
export function matchPattern(pattern: PathPattern, path: string, strict: boolean): boolean {
  const parts = (strict ? path : foldPath(path)).slice(1).split('/')
  const expected = (strict ? pattern.text : foldPath(pattern.text)).slice(1).split('/')
  if (pattern.wildcard) expected.pop()
  const below = parts.length - expected.length
  if (pattern.wildcard ? below < 1 || parts[expected.length] === '' : below !== 0) return false
  return expected.every((segment, index) =>
    segment.startsWith(':') ? parts[index] !== '' : parts[index] === segment,
  )
}

function findTextProblem(text: string): string | undefined {
  if (text.length > PATTERN_LENGTH_MAX) {
    return `found ${text.length} characters; accepted: up to ${PATTERN_LENGTH_MAX}`
  }
  if (!text.startsWith('/')) {
    return `found "${show(text)}"; accepted: a path that begins with "/", such as /v1/orders/:id`
  }
  if (text.includes('?')) return `found "?" in "${show(text)}"; accepted: a path without a query`
  const canonical = canonicalPath(text)
  if (!canonical.ok) return canonical.reason
  // A rule must show what it matches, so another form is refused instead of corrected silently.
  if (canonical.path !== text) {
    return `found "${show(text)}"; accepted: its canonical form "${show(canonical.path)}"`
  }
  return undefined
}

function isParamName(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
}

/** Returns the path of a request target, still encoded. */
function pathOf(target: string): string | PathRefusal {
  const query = target.indexOf('?')
  const whole = query === -1 ? target : target.slice(0, query)
  if (whole.charCodeAt(0) === SLASH) return whole
  // With `user@` or a backslash, parsers disagree on where the host ends.
  const absolute = /^https?:\/\/[A-Za-z0-9._:[\]-]+(?=\/|$)/i.exec(whole)
  if (absolute === null) {
    return refuse(`"${show(whole)}"`, 'a path that begins with "/", or http://host/path')
  }
  return whole.slice(absolute[0].length) || '/'
}

function isPlain(path: string): boolean {
  for (let at = 0; at < path.length; at++) {
    if (SPELLING[path.charCodeAt(at)] !== PLAIN) return false
  }
  return true
}

/** Rewrites every character of a path in its canonical form. */
function respell(path: string): string | PathRefusal {
  let spelled = ''
  for (let at = 0; at < path.length; at++) {
    const code = path.charCodeAt(at)
    if (code !== PERCENT) {
      const spelling = SPELLING[code] ?? 0
      if (spelling === 0) return refuseCharacter(code, false)
      spelled += spelling === PLAIN ? path.charAt(at) : encode(code)
      continue
    }
    const byte = readHexByte(path, at + 1)
    if (byte === -1) return refuse('"%" without two hex digits after it', '"%25" for "%" itself')
    if (isSeparator(byte)) return refuseCharacter(byte, true)
    spelled += SPELLING[byte] === PLAIN ? String.fromCharCode(byte) : encode(byte)
    at += 2
  }
  return findUtf8Problem(spelled) ?? spelled
}

/** Control characters and separators, which some servers interpret even if encoded. */
function isSeparator(code: number): boolean {
  return code < 32 || code === 127 || code === SLASH || code === 92 || code === 59
}

function encode(byte: number): string {
  return `%${byte.toString(16).toUpperCase()}`
}

/** Returns the byte of two hex digits; -1 if they are invalid or the text ends. */
function readHexByte(text: string, at: number): number {
  const digits = text.slice(at, at + 2)
  return /^[0-9A-Fa-f]{2}$/.test(digits) ? Number.parseInt(digits, 16) : -1
}

/**
 * Finds encoded bytes that are not UTF-8 (overlong forms too) or are control characters beyond
 * ASCII.
 */
function findUtf8Problem(path: string): PathRefusal | undefined {
  try {
    if (!/[\u0080-\u009f]/.test(decodeURIComponent(path))) return undefined
    return refuse('an encoded control character', 'a path without it')
  } catch {
    return refuse('encoded bytes that are not UTF-8', 'percent-encoded UTF-8')
  }
}

function findAmbiguity(path: string): PathRefusal | undefined {
  for (let from = 1, to = 0; to < path.length; from = to + 1) {
    const slash = path.indexOf('/', from)
    to = slash === -1 ? path.length : slash
    if (to === from && slash !== -1) return refuse('a doubled slash', 'single slashes')
    if (path.charCodeAt(from) === DOT && ['.', '..'].includes(path.slice(from, to))) {
      return refuse('a dot segment', 'a path without "." and ".." segments, plain or encoded')
    }
  }
  for (let at = path.indexOf('%25'); at !== -1; at = path.indexOf('%25', at + 3)) {
    if (readHexByte(path, at + 3) !== -1) {
      return refuse('a character encoded twice', 'each character percent-encoded at most once')
    }
  }
  return undefined
}

function refuse(found: string, accepted: string): PathRefusal {
  return { ok: false, reason: `found ${found}; accepted: ${accepted}` }
}

function refuseLength(path: string): PathRefusal {
  return refuse(`a path of ${path.length} characters`, `up to ${PATH_LENGTH_MAX}`)
}

function refuseCharacter(code: number, isEncoded: boolean): PathRefusal {
  const hex = code.toString(16).toUpperCase().padStart(4, '0')
  const found = code > 32 && code < 127 ? `"${String.fromCharCode(code)}"` : `U+${hex}`
  const accepted = isSeparator(code) ? 'a path without it' : 'its UTF-8, percent-encoded'
  return refuse(isEncoded ? `an encoded ${found}` : found, accepted)
}

function spellings(): Uint8Array {
  const table = new Uint8Array(128)
  for (const char of '"<>[]^`{|}') table[char.charCodeAt(0)] = ENCODED
  for (let code = 33; code < 127; code++) {
    if (/[A-Za-z0-9/._~!$&'()*+,=:@-]/.test(String.fromCharCode(code))) table[code] = PLAIN
  }
  return table
}
