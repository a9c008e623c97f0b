/**
 * Plain values as YAML that a person reads and edits: a line for each field, short lists on one
 * line. A text stands in quotes wherever some reader, of YAML 1.2 or 1.1, could take it for
 * something else: `no`, `1e3`, `0123`, `12:30`.
 */

const INDENT = '  '
/** A list of scalars is written on one line up to this column. */
const LINE_LENGTH_MAX = 100
/** Readers need not look further for the colon after a key. */
const KEY_LENGTH_MAX = 1000
/** More than any rules have; what holds itself ends here. */
const DEPTH_MAX = 64

type Scalar = string | number | boolean | null

/** Takes what JSON can say; fields that are undefined are left out, anything else throws. */
export function writeYaml(value: unknown): string {
  return `${linesOf(value, 0).join('\n')}\n`
}

/** The lines of a value that begins on a line of its own. */
function linesOf(value: unknown, depth: number): readonly string[] {
  if (depth > DEPTH_MAX) throw new RangeError(`YAML: found more than ${DEPTH_MAX} levels`)
  if (isScalar(value)) return scalarLines(value, depth)
  if (Array.isArray(value)) return inlineList(value, depth * 2) ?? listLines(value, depth)
  const fields = fieldsOf(value)
  if (fields.length === 0) return ['{}']
  return fields.flatMap(([key, field]) => fieldLines(key, field, depth))
}

function listLines(items: readonly unknown[], depth: number): readonly string[] {
  return items.flatMap((item) => {
    const [first = '', ...rest] = linesOf(item, depth + 1)
    return [`- ${first}`, ...indented(rest)]
  })
}

function fieldLines(key: string, value: unknown, depth: number): readonly string[] {
  const name = quotedText(key)
  if (name.length > KEY_LENGTH_MAX) {
    const [first = '', ...rest] = linesOf(value, depth + 1)
    return [`? ${name}`, `: ${first}`, ...indented(rest)]
  }
  const inline = Array.isArray(value) ? inlineList(value, depth * 2 + name.length + 2) : undefined
  if (inline !== undefined) return [`${name}: ${inline[0]}`]
  const [first = '', ...rest] = linesOf(value, depth + 1)
  if (isScalar(value) || first === '{}') return [`${name}: ${first}`, ...indented(rest)]
  return [`${name}:`, ...indented([first, ...rest])]
}

/** A list of scalars on one line, if it is short enough; empty ones always are. */
function inlineList(items: readonly unknown[], column: number): readonly string[] | undefined {
  if (!items.every(isScalar)) return undefined
  // Lines within a line are hard to read.
  if (items.some((item) => typeof item === 'string' && item.includes('\n'))) return undefined
  const line = `[${items.map(scalarText).join(', ')}]`
  return items.length === 0 || column + line.length <= LINE_LENGTH_MAX ? [line] : undefined
}

/** Texts of several lines that not every reader gives back as they are, written as such. */
const UNFIT_FOR_BLOCK = /^\s|[\t ](?:\n|$)|\n\n$|[^\n\P{C}]|[\u2028\u2029\u00a0]/u

function scalarLines(value: Scalar, depth: number): readonly string[] {
  const isBlock = typeof value === 'string' && value.includes('\n') && depth > 0
  if (!isBlock || UNFIT_FOR_BLOCK.test(value)) return [scalarText(value)]
  const isEnded = value.endsWith('\n')
  return [isEnded ? '|' : '|-', ...(isEnded ? value.slice(0, -1) : value).split('\n')]
}

function scalarText(value: Scalar): string {
  if (typeof value === 'string') return quotedText(value)
  if (typeof value !== 'number') return String(value)
  if (!Number.isFinite(value)) throw new TypeError(`YAML: found ${value}, which JSON cannot say`)
  // A reader of YAML 1.1 takes 1e+21 for text, and 1.0e+21 for a number.
  return String(value).replace(/^(-?\d+)e/, '$1.0e')
}

/** A letter or a slash first, then what has no meaning to YAML wherever it stands. */
const PLAIN = /^[\p{L}/_](?:[\p{L}\d_./@+* -]*[\p{L}\d_./@+*-])?$/u
/** `10/second`, `100/10s`, `250ms`, `203.0.113.0/24`: no number in any version of YAML. */
const PLAIN_LIMIT = /^\d+\/[a-z0-9]+$|^\d+(?:ms|s|m|h|d)$|^\d+(?:\.\d+){3}\/\d+$/
/** The last one is a number to some: digits after an exponent, with none before it. */
const WORDS = /^(?:null|true|false|yes|no|on|off|y|n|e[+-]?\d+)$/i

function quotedText(text: string): string {
  if ((PLAIN.test(text) && !WORDS.test(text)) || PLAIN_LIMIT.test(text)) return text
  const isPrintable = !/[\p{C}\u2028\u2029\u00a0]/u.test(text)
  return isPrintable && !text.includes("'") ? `'${text}'` : doubleQuoted(text)
}

function doubleQuoted(text: string): string {
  const escaped = text.replace(/["\\]|[\p{C}\u2028\u2029\u00a0]/gu, escapeOf)
  return `"${escaped}"`
}

function escapeOf(char: string): string {
  if (char === '"' || char === '\\') return `\\${char}`
  if (char === '\n') return '\\n'
  if (char === '\t') return '\\t'
  const code = char.codePointAt(0) ?? 0
  const hex = code.toString(16)
  return code > 0xffff ? `\\U${hex.padStart(8, '0')}` : `\\u${hex.padStart(4, '0')}`
}

function isScalar(value: unknown): value is Scalar {
  return (
    value === null ||
    typeof value === 'string' ||
    typeof value === 'number' ||
    typeof value === 'boolean'
  )
}

function fieldsOf(value: unknown): readonly (readonly [string, unknown])[] {
  if (typeof value !== 'object' || value === null) {
    throw new TypeError(`YAML: found a value of type ${typeof value}; accepted: what JSON can say`)
  }
  return Object.entries(value).filter(([, field]) => field !== undefined)
}

function indented(lines: readonly string[]): readonly string[] {
  return lines.map((line) => (line === '' ? '' : INDENT + line))
}
