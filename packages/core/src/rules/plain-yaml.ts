/**
 * The part of YAML that rule files are written in, read quickly: maps and lists by indentation or
 * in brackets, plain and quoted text on one line. Of 10,000 rules with 360 bytes each the `yaml`
 * package makes a tree in 3.5 seconds, this in 0.5 (two busy cores), and a node reads rules while
 * it serves calls.
 *
 * It never says that a text is bad. Whatever it does not know, good or bad, it leaves to the
 * package; what it does read, it reads as the package would, and a test holds the two against each
 * other.
 */
import { DEPTH_MAX, type Entry, type MapNode, type Node, type ScalarNode } from './tree.js'

/** More than 10,000 large rules have. The package refuses what is beyond. */
const NODES_MAX = 1_000_000

const KEY = /(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|"[ !#-[\]-~]*"|'[ -&(-~]*')(?=:)/y
const QUOTED = /"[ !#-[\]-~]*"|'[ -&(-~]*'(?!')/y
/** Begins with no sign that means something, and goes on to the end of the line or to a comment. */
const BLOCK_PLAIN = /-?[A-Za-z0-9/](?:[!"$-9;-~]|:(?=[!-~])| +(?=[!"$-~]))*(?<!:)/y
/** The same where a bracket or a comma ends it; what looks like a key within it is not read. */
const FLOW_PLAIN = /-?[A-Za-z0-9/](?:[!$-+.-9;-Z^-z~-]|:(?=[A-Za-z0-9])| +(?=[A-Za-z0-9/]))*/y
const LINE_REST = / *(?:(?<= )#[\t -~]*)?(?:\n|$)/y
/** A line that says nothing, as far as it goes: never of no length. */
const BLANK_LINE = / *(?:#[\t -~]*)?\n| *#[\t -~]*$| +$/y
const SPACES = / */y
const WHITE_SPACE = /[ \t\n]*/y

interface Reading {
  readonly text: string
  at: number
  nodes: number
  /** Whether the document is one pair of brackets, within which lines mean nothing. */
  isFlow: boolean
}

/** Thrown at the first thing that is not known. */
const UNKNOWN = new Error('not plain')

/** The tree, or undefined where the text needs the whole of YAML. */
export function readPlainYaml(text: string): Node | undefined {
  const reading: Reading = { text, at: 0, nodes: 0, isFlow: false }
  try {
    skipLines(reading)
    const first = text[reading.at]
    reading.isFlow = first === '[' || first === '{'
    const root = reading.isFlow ? readFlow(reading, 1) : readBlock(reading, { column: 0, depth: 1 })
    if (reading.isFlow) skip(reading, WHITE_SPACE)
    else skipLines(reading)
    return reading.at === text.length ? root : undefined
  } catch {
    // Or the stack of the regular expressions is full: of a line with megabytes, for example.
    return undefined
  }
}

interface Block {
  readonly column: number
  readonly depth: number
}

/** A list or a map whose first dash or key is here. */
function readBlock(reading: Reading, block: Block): Node {
  if (block.depth > DEPTH_MAX) throw UNKNOWN
  return isDash(reading) ? readBlockList(reading, block) : readBlockMap(reading, block)
}

function readBlockList(reading: Reading, { column, depth }: Block): Node {
  const { at } = reading
  const items: Node[] = []
  do {
    const dash = reading.at
    reading.at++
    skip(reading, SPACES)
    const inner = { column: column + reading.at - dash, depth: depth + 1 }
    if (isDash(reading)) throw UNKNOWN
    items.push(peek(reading, KEY) ? readBlock(reading, inner) : readLineValue(reading, inner.depth))
  } while (isNext(reading, column, true))
  count(reading)
  return { kind: 'list', at, items }
}

function readBlockMap(reading: Reading, { column, depth }: Block): MapNode {
  const { at } = reading
  const map = createMap()
  do {
    const key = readKey(reading)
    const isLineOver = test(reading, LINE_REST)
    const value = isLineOver
      ? readIndented(reading, { column, depth: depth + 1 })
      : readLineValue(reading, depth + 1)
    addEntry(map, { ...key, value })
  } while (isNext(reading, column, false))
  count(reading)
  return { kind: 'map', at, ...map }
}

/** What stands below a key: further in, or a list whose dashes are right below it. */
function readIndented(reading: Reading, { column, depth }: Block): Node {
  skipLines(reading)
  const start = reading.at
  skip(reading, SPACES)
  const inner = reading.at - start
  if (inner < column || (inner === column && !isDash(reading))) throw UNKNOWN
  return readBlock(reading, { column: inner, depth })
}

/** A value that ends with its line. */
function readLineValue(reading: Reading, depth: number): Node {
  const first = reading.text[reading.at]
  const isBracket = first === '[' || first === '{'
  const value = isBracket ? readFlow(reading, depth) : readScalar(reading, BLOCK_PLAIN)
  if (!test(reading, LINE_REST)) throw UNKNOWN
  return value
}

/** Whether the next line that says something goes on with this list or map; moves to it if so. */
function isNext(reading: Reading, column: number, isList: boolean): boolean {
  skipLines(reading)
  const start = reading.at
  skip(reading, SPACES)
  if (reading.at === reading.text.length) return false
  const found = reading.at - start
  // Further in it would go on with the value, or be a mistake.
  if (found > column) throw UNKNOWN
  if (found === column && isDash(reading) === isList) return true
  reading.at = start
  return false
}

function readFlow(reading: Reading, depth: number): Node {
  if (depth > DEPTH_MAX) throw UNKNOWN
  const { text, at } = reading
  const isMap = text[at] === '{'
  const close = isMap ? '}' : ']'
  const items: Node[] = []
  const map = createMap()
  reading.at++
  skipFlow(reading)
  while (text[reading.at] !== close) {
    if (isMap) {
      const key = readKey(reading)
      skipFlow(reading)
      addEntry(map, { ...key, value: readFlowValue(reading, depth + 1) })
    } else items.push(readFlowValue(reading, depth + 1))
    skipFlow(reading)
    if (text[reading.at] === ',') {
      reading.at++
      skipFlow(reading)
    } else if (text[reading.at] !== close) throw UNKNOWN
  }
  reading.at++
  count(reading)
  return isMap ? { kind: 'map', at, ...map } : { kind: 'list', at, items }
}

function readFlowValue(reading: Reading, depth: number): Node {
  const first = reading.text[reading.at]
  if (first === '[' || first === '{') return readFlow(reading, depth)
  return readScalar(reading, FLOW_PLAIN)
}

/** A key with its colon, and the space that must follow unless the key is in quotes. */
function readKey(reading: Reading): { readonly at: number; readonly key: string } {
  const { at } = reading
  const key = take(reading, KEY)
  reading.at++
  const isQuoted = key.startsWith('"') || key.startsWith("'")
  const start = reading.at
  skip(reading, SPACES)
  const next = reading.text[reading.at]
  if (reading.at === start && next !== '\n' && !(isQuoted && reading.isFlow)) throw UNKNOWN
  return { at, key: isQuoted ? key.slice(1, -1) : key }
}

function readScalar(reading: Reading, plain: RegExp): ScalarNode {
  count(reading)
  const { at } = reading
  if (peek(reading, QUOTED))
    return { kind: 'scalar', at, value: take(reading, QUOTED).slice(1, -1) }
  const text = take(reading, plain)
  if (/^-?(?:0|[1-9][0-9]{0,14})$/.test(text)) {
    return { kind: 'scalar', at, value: Number(text), source: text }
  }
  if (text === 'true' || text === 'false') return { kind: 'scalar', at, value: text === 'true' }
  if (text === 'null') return { kind: 'scalar', at, value: null }
  // Numbers in other forms, and the words above in capitals.
  if (/^-?[0-9][0-9a-fox.+-]*$/i.test(text) || /^(?:null|true|false)$/i.test(text)) throw UNKNOWN
  return { kind: 'scalar', at, value: text }
}

interface MapParts {
  readonly entries: Map<string, Entry>
  readonly repeated: Entry[]
  readonly badKeys: readonly number[]
}

function createMap(): MapParts {
  return { entries: new Map(), repeated: [], badKeys: [] }
}

function addEntry({ entries, repeated }: MapParts, entry: Entry): void {
  if (entries.has(entry.key)) repeated.push(entry)
  else entries.set(entry.key, entry)
}

function isDash({ text, at }: Reading): boolean {
  return text[at] === '-' && text[at + 1] === ' '
}

function count(reading: Reading): void {
  if (++reading.nodes > NODES_MAX) throw UNKNOWN
}

function skipLines(reading: Reading): void {
  while (test(reading, BLANK_LINE));
}

function skipFlow(reading: Reading): void {
  skip(reading, reading.isFlow ? WHITE_SPACE : SPACES)
}

function peek({ text, at }: Reading, pattern: RegExp): boolean {
  pattern.lastIndex = at
  return pattern.test(text)
}

function test(reading: Reading, pattern: RegExp): boolean {
  const isThere = peek(reading, pattern)
  if (isThere) reading.at = pattern.lastIndex
  return isThere
}

/** For patterns that match nothing as well. */
function skip(reading: Reading, pattern: RegExp): void {
  test(reading, pattern)
}

function take(reading: Reading, pattern: RegExp): string {
  const start = reading.at
  if (!test(reading, pattern)) throw UNKNOWN
  return reading.text.slice(start, reading.at)
}
