/**
 * YAML or JSON text as a tree. The one file that knows the `yaml` package.
 *
 * The package reads whatever it is given; a rule file is a few kinds of lists and maps. So the text
 * is watched while it is cut into tokens, and left at the first sign that it is something else: a
 * bomb costs what it takes to see its fuse, not what it takes to build it.
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
  TOO_DEEP,
  type Tree,
  type TreeProblem,
  TreeError,
} from './tree.js'

export const TEXT_LENGTH_MAX = 16 * 1024 * 1024
/** Each costs the package about a microsecond and 300 bytes; 10,000 large rules have 2 million. */
const TOKENS_MAX = 3_000_000
export const ALIASES_MAX = 100
/** Ten aliases of ten aliases of ten are few to write and many to read. */
export const ALIASED_VALUES_MAX = 100_000
const SYNTAX_ERRORS_MAX = 20
const REASON_LENGTH_MAX = 160

const ACCEPTED_TEXT = 'YAML 1.2 or JSON'

export function readDocument(text: string, tokensMax = TOKENS_MAX): Tree {
  if (text.length > TEXT_LENGTH_MAX) {
    const found = `${text.length} characters`
    const accepted = `up to ${TEXT_LENGTH_MAX} characters`
    return { problems: [{ code: 'too-large', at: 0, found, accepted }] }
  }
  const errors: SyntaxError[] = []
  try {
    const contents = compose(scan(text, errors, tokensMax), text, errors)
    if (errors.length === 0) {
      const conversion = { anchors: new Map(), values: 0, aliased: 0, deepest: 0 }
      return { root: convert(conversion, contents, 1) }
    }
  } catch (error) {
    if (error instanceof TreeError) return { problems: [error.problem] }
    // The package answers bad text with a list of errors; should it ever throw, the text is bad
    // too.
    if (error !== TOO_MANY_ERRORS) errors.push({ at: 0, reason: String(error) })
  }
  return { problems: errors.map((error) => describeSyntax(error, text)) }
}

interface SyntaxError {
  readonly at: number
  readonly reason: string
}

/** Thrown when there are so many errors that more of them would not help. */
const TOO_MANY_ERRORS = new Error(`${SYNTAX_ERRORS_MAX} syntax errors`)

function collect(errors: SyntaxError[], error: SyntaxError): void {
  // The package catches what is thrown within it, and tells of it as one more error.
  if (errors.length < SYNTAX_ERRORS_MAX) errors.push(error)
  if (errors.length >= SYNTAX_ERRORS_MAX) throw TOO_MANY_ERRORS
}

/** The tokens of a single document. Throws if it is none of ours, whatever its syntax. */
function scan(text: string, errors: SyntaxError[], tokensMax: number): readonly CST.Token[] {
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
    // The document is on the stack as well, and so may be a scalar.
    if (parser.stack.length > DEPTH_MAX + 2) throw new TreeError({ ...TOO_DEEP, at: parser.offset })
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
    // The lexer announces a plain scalar by this, and a plain scalar is no alias and no tag.
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
  // Keys are compared by the conversion: the package compares each with each.
  const composer = new Composer({ schema: 'core', merge: false, uniqueKeys: false })
  // For a million stray quotes the package would make a million errors. This is its own list.
  const found = composer.streamInfo().errors
  found.push = (...more) => {
    for (const { pos, message } of more) collect(errors, { at: pos[0], reason: message })
    return errors.length
  }
  const [document] = composer.compose(tokens, true, text.length)
  return document?.contents
}

interface Conversion {
  readonly anchors: Map<string, AnchorTarget>
  /** Made so far, those that aliases stand for counted each time. */
  values: number
  aliased: number
  /** The deepest level met since the last anchor began. */
  deepest: number
}

interface AnchorTarget {
  readonly node: Node
  readonly values: number
  /** How many levels of lists and maps lie within it. */
  readonly levels: number
}

/** What the package composed as our own tree, aliases replaced by what they stand for. */
function convert(conversion: Conversion, node: unknown, depth: number): Node {
  if (isAlias(node)) return resolveAlias(conversion, node.source, { at: startOf(node), depth })
  const anchor = isScalar(node) || isMap(node) || isSeq(node) ? node.anchor : undefined
  if (anchor === undefined) return convertValue(conversion, node, depth)

  const { values, deepest } = conversion
  conversion.deepest = depth
  const converted = convertValue(conversion, node, depth)
  // Known only from here on: an alias within its own anchor stands for nothing.
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
  if (depth > DEPTH_MAX) throw new TreeError({ ...TOO_DEEP, at })
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
    // A key is its text: `404:` and `true:` are names here, as they are in JSON.
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
  if (depth + target.levels > DEPTH_MAX) throw new TreeError({ ...TOO_DEEP, at })
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
