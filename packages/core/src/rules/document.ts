/**
 * Parses YAML or JSON text into a tree. The only file that uses the `yaml` package.
 *
 * The package reads any YAML; a rule file is a few kinds of lists and maps. So the tokens are
 * checked while the text is scanned, and scanning stops at the first one that a rule file cannot
 * have: a YAML bomb costs only the text up to that token, and is never built.
 */
import { Composer, type CST, isAlias, isMap, isScalar, isSeq, Lexer, type Pair, Parser } from 'yaml'
import { show } from '../errors.js'
import {
  DEPTH_MAX,
  type MapEntry,
  type MapNode,
  type Node,
  quote,
  type ScalarNode,
  tooDeep,
  type Tree,
  type TreeProblem,
  TreeError,
} from './tree.js'

export const TEXT_LENGTH_MAX = 16 * 1024 * 1024
/**
 * Each token costs the package about a microsecond and 300 bytes; 10,000 large rules have 2
 * million.
 */
const TOKENS_MAX = 3_000_000
export const ALIASES_MAX = 100
/** Nested aliases expand exponentially: ten of ten of ten are 1,000 values. */
export const ALIASED_VALUES_MAX = 100_000
const SYNTAX_ERRORS_MAX = 20
const REASON_LENGTH_MAX = 160

const ACCEPTED_TEXT = 'YAML 1.2 or JSON'

export interface DocumentBounds {
  /** @default 3 million */
  readonly tokensMax?: number | undefined
  /** The deepest nesting of lists and maps. @default 16, which rules never need */
  readonly depthMax?: number | undefined
}

export function readDocument(text: string, bounds: DocumentBounds = {}): Tree {
  const { tokensMax = TOKENS_MAX, depthMax = DEPTH_MAX } = bounds
  if (text.length > TEXT_LENGTH_MAX) {
    const found = `${text.length} characters`
    const accepted = `up to ${TEXT_LENGTH_MAX} characters`
    return { problems: [{ code: 'too-large', at: 0, found, accepted }] }
  }
  const errors: SyntaxError[] = []
  try {
    const contents = compose(scan(text, errors, { tokensMax, depthMax }), text, errors)
    if (errors.length === 0) {
      const conversion = { depthMax, anchors: new Map(), values: 0, aliased: 0, deepest: 0 }
      return { root: convert(conversion, contents, 1) }
    }
  } catch (error) {
    if (error instanceof TreeError) return { problems: [error.problem] }
    // The package returns a list of errors for invalid text; if it throws, the text is invalid too.
    if (error !== TOO_MANY_ERRORS) errors.push({ at: 0, reason: String(error) })
  }
  return { problems: errors.map((error) => describeSyntax(error, text)) }
}

interface SyntaxError {
  readonly at: number
  readonly reason: string
}

/** Thrown at the limit of syntax errors. */
const TOO_MANY_ERRORS = new Error(`${SYNTAX_ERRORS_MAX} syntax errors`)

function collect(errors: SyntaxError[], error: SyntaxError): void {
  // The package catches exceptions thrown within it and adds them to its errors.
  if (errors.length < SYNTAX_ERRORS_MAX) errors.push(error)
  if (errors.length >= SYNTAX_ERRORS_MAX) throw TOO_MANY_ERRORS
}

/** Returns the tokens of a single document. Throws if it uses features that rules do not have. */
function scan(
  text: string,
  errors: SyntaxError[],
  { tokensMax, depthMax }: { readonly tokensMax: number; readonly depthMax: number },
): readonly CST.Token[] {
  const parser = new Parser()
  const tokens: CST.Token[] = []
  let documents = 0
  const keep = (token: CST.Token) => {
    if (token.type === 'error') collect(errors, { at: token.offset, reason: token.message })
    else tokens.push(token)
    if (token.type === 'directive')
      throw unsupported(token.offset, 'a directive', 'a document without directives')
    if (token.type === 'document' && ++documents > 1) {
      throw unsupported(token.offset, 'a second document', 'a single document')
    }
  }
  const guard = createTokenGuard(parser, tokensMax)
  for (const lexeme of new Lexer().lex(text)) {
    guard(lexeme)
    for (const token of parser.next(lexeme)) keep(token)
    // The stack also contains the document, and maybe a scalar.
    if (parser.stack.length > depthMax + 2) {
      throw new TreeError(tooDeep(parser.offset, depthMax))
    }
  }
  for (const token of parser.end()) keep(token)
  return tokens
}

function createTokenGuard(parser: Parser, tokensMax: number): (lexeme: string) => void {
  let count = 0
  let aliases = 0
  let isTextNext = false
  return (lexeme) => {
    const at = parser.offset
    if (++count > tokensMax) throw tooMuch('too-large', at, `${tokensMax} tokens`)
    const isText = isTextNext
    // The lexer emits this before a plain scalar, which is neither an alias nor a tag.
    isTextNext = !isText && lexeme === '\u001f'
    if (isText) return
    if (lexeme.startsWith('*') && ++aliases > ALIASES_MAX) {
      throw tooMuch('too-many-aliases', at, `${ALIASES_MAX} aliases`)
    }
    if (lexeme.startsWith('!')) {
      throw unsupported(at, `the tag ${show(lexeme, 50)}`, 'values without tags')
    }
  }
}

function compose(tokens: readonly CST.Token[], text: string, errors: SyntaxError[]): unknown {
  // Duplicate keys are found by the conversion: the package compares every pair.
  const composer = new Composer({ schema: 'core', merge: false, uniqueKeys: false })
  // A million stray quotes would produce a million errors. This is the package's own list.
  const found = composer.streamInfo().errors
  found.push = (...more) => {
    for (const { pos, message } of more) collect(errors, { at: pos[0], reason: message })
    return errors.length
  }
  const [document] = composer.compose(tokens, true, text.length)
  return document?.contents
}

interface Conversion {
  readonly depthMax: number
  readonly anchors: Map<string, AnchorTarget>
  /** The number of values so far; aliased values count at every occurrence. */
  values: number
  aliased: number
  /** The deepest level met since the last anchor began. */
  deepest: number
}

interface AnchorTarget {
  readonly node: Node
  readonly values: number
  /** The number of levels of lists and maps within it. */
  readonly levels: number
}

/** Converts the package's document to a tree, with aliases replaced by their values. */
function convert(conversion: Conversion, node: unknown, depth: number): Node {
  if (isAlias(node)) return resolveAlias(conversion, node.source, { at: startOf(node), depth })
  const anchor = isScalar(node) || isMap(node) || isSeq(node) ? node.anchor : undefined
  if (anchor === undefined) return convertValue(conversion, node, depth)

  const { values, deepest } = conversion
  conversion.deepest = depth
  const converted = convertValue(conversion, node, depth)
  // Registered only here: an alias within its own anchor is invalid.
  conversion.anchors.set(anchor, {
    node: converted,
    values: conversion.values - values,
    levels: conversion.deepest - depth,
  })
  conversion.deepest = Math.max(conversion.deepest, deepest)
  return converted
}

function convertValue(conversion: Conversion, node: unknown, depth: number): Node {
  conversion.values++
  if (isScalar(node)) return convertScalar(node.value, node.source ?? '', startOf(node))
  if (!isMap(node) && !isSeq(node)) return { kind: 'scalar', at: 0, value: null }
  const at = startOf(node)
  if (depth > conversion.depthMax) throw new TreeError(tooDeep(at, conversion.depthMax))
  conversion.deepest = Math.max(conversion.deepest, depth)
  if (isMap(node)) return convertMap(conversion, node.items, { at, depth })
  return { kind: 'list', at, items: node.items.map((item) => convert(conversion, item, depth + 1)) }
}

interface Position {
  readonly at: number
  readonly depth: number
}

function convertMap(
  conversion: Conversion,
  pairs: readonly Pair[],
  { at, depth }: Position,
): MapNode {
  const entries = new Map<string, MapEntry>()
  const repeated: MapEntry[] = []
  const badKeys: number[] = []
  for (const { key, value } of pairs) {
    if (!isScalar(key)) {
      badKeys.push(startOf(key) || at)
      continue
    }
    // A key is its text: `404:` and `true:` are names, as in JSON.
    const name = key.source ?? String(key.value)
    const entry = { at: startOf(key), key: name, value: convert(conversion, value, depth + 1) }
    if (entries.has(name)) repeated.push(entry)
    else entries.set(name, entry)
  }
  return { kind: 'map', at, entries, repeated, badKeys }
}

function resolveAlias(conversion: Conversion, name: string, { at, depth }: Position): Node {
  const target = conversion.anchors.get(name)
  if (target === undefined) {
    const why = 'no anchor of this name stands before the alias'
    throw new TreeError({
      code: 'bad-yaml',
      at,
      found: quote(`*${name}`),
      why,
      accepted: ACCEPTED_TEXT,
    })
  }
  conversion.values += target.values
  conversion.aliased += target.values
  if (conversion.aliased > ALIASED_VALUES_MAX) {
    throw tooMuch('too-many-aliases', at, `${ALIASED_VALUES_MAX} values in place of aliases`)
  }
  if (depth + target.levels > conversion.depthMax) {
    throw new TreeError(tooDeep(at, conversion.depthMax))
  }
  conversion.deepest = Math.max(conversion.deepest, depth + target.levels)
  return target.node
}

function convertScalar(value: unknown, source: string, at: number): ScalarNode {
  if (typeof value === 'number') return { kind: 'scalar', at, value, source }
  if (value === null || typeof value === 'boolean') return { kind: 'scalar', at, value }
  return { kind: 'scalar', at, value: typeof value === 'string' ? value : source }
}

function startOf(node: unknown): number {
  return isAlias(node) || isScalar(node) || isMap(node) || isSeq(node) ? (node.range?.[0] ?? 0) : 0
}

function unsupported(at: number, found: string, accepted: string): TreeError {
  return new TreeError({ code: 'unsupported-yaml', at, found, accepted })
}

function tooMuch(code: 'too-large' | 'too-many-aliases', at: number, most: string): TreeError {
  return new TreeError({ code, at, found: `more than ${most}`, accepted: `up to ${most}` })
}

function describeSyntax({ at, reason }: SyntaxError, text: string): TreeProblem {
  const line = /^[^\r\n]*/.exec(text.slice(at, at + 100))?.[0].trim() ?? ''
  const found = line === '' ? 'the end of a line' : quote(line)
  const why = show(reason, REASON_LENGTH_MAX)
  return { code: 'bad-yaml', at, found, why, accepted: ACCEPTED_TEXT }
}
