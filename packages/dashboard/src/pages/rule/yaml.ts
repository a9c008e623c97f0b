/**
 * Writes a rule as YAML for editing: one line per field, short values inline. Text is quoted
 * wherever a YAML parser could read it as something else.
 */

/** Longer lines are broken. */
const COLUMNS = 68
/** Deeper than any rule; stops at cyclic values. */
const DEPTH_MAX = 32

/** Fields that the admin API adds to a rule. */
const ADDED_FIELDS: ReadonlySet<string> = new Set(['version', 'overrideCount', 'shadowUntil'])

/** The order of fields in the documentation; other fields follow. */
const ORDER: readonly string[] = [
  'id',
  'description',
  'match',
  'by',
  'limits',
  'tiers',
  'candidate',
  'cost',
  'mode',
  'coordination',
]

export function writeRule(rule: Readonly<Record<string, unknown>>): string {
  const fields = Object.entries(rule).filter(([field]) => !ADDED_FIELDS.has(field))
  const rank = ([field]: readonly [string, unknown]) =>
    ORDER.includes(field) ? ORDER.indexOf(field) : ORDER.length
  return writeYaml(Object.fromEntries(fields.toSorted((a, b) => rank(a) - rank(b))))
}

/** Accepts JSON values. */
export function writeYaml(value: unknown): string {
  return `${blockOf(value, 0).join('\n')}\n`
}

type Fields = readonly (readonly [string, unknown])[]

/** The lines of a value that starts on its own line. */
function blockOf(value: unknown, depth: number): readonly string[] {
  if (depth > DEPTH_MAX) throw new RangeError(`YAML: found more than ${DEPTH_MAX} levels`)
  if (Array.isArray(value)) return value.length === 0 ? ['[]'] : value.flatMap(itemOf(depth))
  if (!isMap(value)) return [scalar(value)]
  const fields = fieldsOf(value)
  return fields.length === 0 ? ['{}'] : fields.flatMap((field) => fieldOf(field, depth))
}

function itemOf(depth: number): (item: unknown) => readonly string[] {
  return (item) => {
    const inline = flowOf(item, depth)
    if (2 * depth + 2 + inline.length <= COLUMNS) return [`- ${inline}`]
    const [first = '', ...rest] = blockOf(item, depth + 1)
    return [`- ${first}`, ...indent(rest)]
  }
}

function fieldOf([name, value]: readonly [string, unknown], depth: number): readonly string[] {
  const key = quote(name)
  const lines = typeof value === 'string' ? (blockLines(value) ?? sentenceLine(value)) : undefined
  if (lines !== undefined) return [`${key}: ${lines[0]}`, ...indent(lines.slice(1))]
  const inline = flowOf(value, depth)
  const fits = 2 * depth + key.length + 2 + inline.length <= COLUMNS
  if (isLeaf(value) || (fits && !prefersBlock(value, depth))) return [`${key}: ${inline}`]
  return [`${key}:`, ...indent(blockOf(value, depth + 1))]
}

/** Whether a value is written over several lines, however short: `match`, lists of limits. */
function prefersBlock(value: unknown, depth: number): boolean {
  if (Array.isArray(value)) return value.some((item) => !isLeaf(item))
  return depth === 0
}

/** Scalars and empty collections are written in one line, whatever their length. */
function isLeaf(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  return !isMap(value) || fieldsOf(value).length === 0
}

function flowOf(value: unknown, depth: number): string {
  if (depth > DEPTH_MAX) throw new RangeError(`YAML: found more than ${DEPTH_MAX} levels`)
  if (Array.isArray(value)) return `[${value.map((item) => flowOf(item, depth + 1)).join(', ')}]`
  if (!isMap(value)) return scalar(value)
  const fields = fieldsOf(value).map(
    ([name, field]) => `${quote(name)}: ${flowOf(field, depth + 1)}`,
  )
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}

const INVISIBLE = /[\p{C}\u2028\u2029\u00a0]/u

/** Multi-line text as a block; undefined where a parser might not read back the same text. */
function blockLines(text: string): readonly string[] | undefined {
  if (!text.includes('\n') || /^\s|[\t ](?:\n|$)|\n\n$/.test(text)) return undefined
  const isEnded = text.endsWith('\n')
  const lines = (isEnded ? text.slice(0, -1) : text).split('\n')
  if (lines.some((line) => INVISIBLE.test(line))) return undefined
  return [isEnded ? '|' : '|-', ...lines]
}

/** A sentence with commas needs no quotes after a key, only inside brackets. */
function sentenceLine(text: string): readonly string[] | undefined {
  const isSentence = text.includes(', ') && PLAIN.test(text.replaceAll(', ', ' '))
  return isSentence ? [text] : undefined
}

function scalar(value: unknown): string {
  if (typeof value === 'string') return quote(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) {
    // A YAML 1.1 parser reads 1e+21 as text.
    return String(value).replace(/^(-?\d+)e/, '$1.0e')
  }
  throw new TypeError(`YAML: found a value of type ${typeof value}; accepted: JSON values`)
}

/** A letter or a slash, then characters without a meaning in YAML. */
const PLAIN = /^[\p{L}/_](?:(?:[\p{L}\d_./@+*;()' -]|:(?=[\p{L}\d/]))*[\p{L}\d_./@+*()-])?$/u
/** `10/second`, `100/10s`, `250ms`, `203.0.113.0/24`: not a number in any version of YAML. */
const LIMIT = /^\d+\/[a-z0-9]+$|^\d+(?:ms|s|m|h|d)$|^\d+(?:\.\d+){3}(?:\/\d+)?$/
const RESERVED_WORDS = /^(?:null|true|false|yes|no|on|off|y|n|e\d+)$/i

function quote(text: string): string {
  if ((PLAIN.test(text) && !RESERVED_WORDS.test(text)) || LIMIT.test(text)) return text
  const escaped = JSON.stringify(text).replace(/[\p{C}\u2028\u2029\u00a0]/gu, (character) => {
    const hex = (character.codePointAt(0) ?? 0).toString(16)
    return hex.length > 4 ? `\\U${hex.padStart(8, '0')}` : `\\u${hex.padStart(4, '0')}`
  })
  return escaped
}

function isMap(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const fieldsOf = (value: object): Fields =>
  Object.entries(value).filter(([, field]) => field !== undefined)

const indent = (lines: readonly string[]): readonly string[] =>
  lines.map((line) => (line === '' ? '' : `  ${line}`))
