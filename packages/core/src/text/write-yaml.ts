/**
 * Writes JSON values as YAML for reading and editing: one line per field, short lists on one line.
 * Text is quoted wherever a parser of YAML 1.2 or 1.1 could read it as something else: `no`, `1e3`,
 * `0123`, `12:30`.
 */

const INDENT = '  '
/** Parsers need not search further for the colon after a key. */
const KEY_LENGTH_MAX = 1000
/** Deeper than any rules; stops at cyclic values. */
const DEPTH_MAX = 64

/** How much is written on one line. */
export interface YamlStyle {
  /** A list or map is written on one line up to this column. */
  readonly columns: number
  /** Writes short maps on one line too: `{ max: 10, window: 1s }`. */
  readonly hasInlineMaps: boolean
  /** Text that needs no quotes, unless it is one of RESERVED. */
  readonly plain: RegExp
}

/** For files: differences between versions stay small. */
const BLOCK: YamlStyle = {
  columns: 100,
  hasInlineMaps: false,
  // A letter or a slash, then characters that have no meaning in YAML.
  plain: /^[\p{L}/_](?:[\p{L}\d_./@+* -]*[\p{L}\d_./@+*-])?$/u,
}

/** For an editor: as in the documentation. */
const COMPACT: YamlStyle = {
  columns: 68,
  hasInlineMaps: true,
  plain: /^[\p{L}/_](?:(?:[\p{L}\d_./@+*;()' -]|:(?=[\p{L}\d/]))*[\p{L}\d_./@+*()-])?$/u,
}

/** Fields that the admin API adds to a rule. */
const ADDED_FIELDS: ReadonlySet<string> = new Set(['version', 'overrideCount', 'shadowUntil'])

/** The order of fields in the documentation; other fields follow. */
const FIELD_ORDER: readonly string[] = [
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

type Scalar = string | number | boolean | null

/** Writes a rule of the admin API for an editor: its own fields, in the usual order. */
export function writeRuleYaml(rule: Readonly<Record<string, unknown>>): string {
  const fields = Object.entries(rule).filter(([field]) => !ADDED_FIELDS.has(field))
  const rank = ([field]: readonly [string, unknown]) =>
    FIELD_ORDER.includes(field) ? FIELD_ORDER.indexOf(field) : FIELD_ORDER.length
  const sorted = fields.toSorted((a, b) => rank(a) - rank(b))
  return writeYaml(Object.fromEntries(sorted), 'compact')
}

/** Accepts JSON values; undefined fields are left out, anything else throws. */
export function writeYaml(value: unknown, style: 'block' | 'compact' = 'block'): string {
  return `${linesOf(value, 0, style === 'block' ? BLOCK : COMPACT).join('\n')}\n`
}

/** The lines of a value that starts on its own line. */
function linesOf(value: unknown, depth: number, style: YamlStyle): readonly string[] {
  requireDepth(depth)
  if (isScalar(value)) return scalarLines(value, depth, style)
  if (Array.isArray(value)) {
    const inline = style.hasInlineMaps ? undefined : fittingLine(value, depth * 2, depth, style)
    if (value.length === 0 || inline !== undefined) return [inline ?? '[]']
    return value.flatMap((item) => itemLines(item, depth, style))
  }
  const fields = fieldsOf(value)
  if (fields.length === 0) return ['{}']
  return fields.flatMap(([key, field]) => fieldLines(key, field, depth, style))
}

function itemLines(item: unknown, depth: number, style: YamlStyle): readonly string[] {
  const inline = style.hasInlineMaps ? fittingLine(item, depth * 2 + 2, depth, style) : undefined
  const [first = '', ...rest] = inline === undefined ? linesOf(item, depth + 1, style) : [inline]
  return [`- ${first}`, ...indented(rest)]
}

function fieldLines(
  key: string,
  value: unknown,
  depth: number,
  style: YamlStyle,
): readonly string[] {
  const name = quotedText(key, style)
  if (name.length > KEY_LENGTH_MAX) {
    const [first = '', ...rest] = linesOf(value, depth + 1, style)
    return [`? ${name}`, `: ${first}`, ...indented(rest)]
  }
  const sentence = sentenceOf(value, style)
  if (sentence !== undefined) return [`${name}: ${sentence}`]
  const inline = prefersLines(value, depth, style)
    ? undefined
    : fittingLine(value, depth * 2 + name.length + 2, depth, style)
  if (inline !== undefined) return [`${name}: ${inline}`]
  const [first = '', ...rest] = linesOf(value, depth + 1, style)
  if (isScalar(value) || first === '{}') return [`${name}: ${first}`, ...indented(rest)]
  return [`${name}:`, ...indented([first, ...rest])]
}

/** Whether a value has several lines however short it is: `match`, a list of limits with fields. */
function prefersLines(value: unknown, depth: number, style: YamlStyle): boolean {
  if (isScalar(value)) return true
  if (!style.hasInlineMaps) return !Array.isArray(value)
  if (Array.isArray(value)) return value.some((item) => !isScalar(item) && !isEmpty(item))
  return depth === 0 && !isEmpty(value)
}

/** A value on one line, if it fits there; empty lists always do. */
function fittingLine(
  value: unknown,
  column: number,
  depth: number,
  style: YamlStyle,
): string | undefined {
  const line = inlineText(value, depth, style)
  if (line === undefined) return undefined
  return isEmpty(value) || column + line.length <= style.columns ? line : undefined
}

/** Returns undefined if the style needs several lines: maps, lists in lists, multi-line text. */
function inlineText(value: unknown, depth: number, style: YamlStyle): string | undefined {
  requireDepth(depth)
  if (isScalar(value)) {
    return typeof value === 'string' && value.includes('\n') ? undefined : scalarText(value, style)
  }
  if (Array.isArray(value)) {
    if (!style.hasInlineMaps && !value.every(isScalar)) return undefined
    const items = value.map((item) => inlineText(item, depth + 1, style))
    return items.includes(undefined) ? undefined : `[${items.join(', ')}]`
  }
  if (!style.hasInlineMaps) return undefined
  const fields = fieldsOf(value).map(([key, field]) => {
    const text = inlineText(field, depth + 1, style)
    return text === undefined ? undefined : `${quotedText(key, style)}: ${text}`
  })
  if (fields.includes(undefined)) return undefined
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}

/** A sentence with commas needs no quotes after a key, only inside brackets. */
function sentenceOf(value: unknown, style: YamlStyle): string | undefined {
  if (!style.hasInlineMaps || typeof value !== 'string' || !value.includes(', ')) return undefined
  return style.plain.test(value.replaceAll(', ', ' ')) ? value : undefined
}

/** Text of several lines that some parsers would not read back unchanged as a block. */
const UNFIT_FOR_BLOCK = /^\s|[\t ](?:\n|$)|\n\n$|[^\n\P{C}]|[\u2028\u2029\u00a0]/u

function scalarLines(value: Scalar, depth: number, style: YamlStyle): readonly string[] {
  const isBlock = typeof value === 'string' && value.includes('\n') && depth > 0
  if (!isBlock || UNFIT_FOR_BLOCK.test(value)) return [scalarText(value, style)]
  const isEnded = value.endsWith('\n')
  return [isEnded ? '|' : '|-', ...(isEnded ? value.slice(0, -1) : value).split('\n')]
}

function scalarText(value: Scalar, style: YamlStyle): string {
  if (typeof value === 'string') return quotedText(value, style)
  if (typeof value !== 'number') return String(value)
  if (!Number.isFinite(value)) throw new TypeError(`YAML: found ${value}, which JSON cannot say`)
  // YAML 1.1 reads 1e+21 as text, and 1.0e+21 as a number.
  return String(value).replace(/^(-?\d+)e/, '$1.0e')
}

/** `10/second`, `100/10s`, `250ms`, `203.0.113.0/24`: not a number in any version of YAML. */
const LIMIT = /^\d+\/[a-z0-9]+$|^\d+(?:ms|s|m|h|d)$|^\d+(?:\.\d+){3}\/\d+$/
/** Some parsers read the last one as a number: an exponent without digits before it. */
const RESERVED = /^(?:null|true|false|yes|no|on|off|y|n|e[+-]?\d+)$/i

function quotedText(text: string, { plain }: YamlStyle): string {
  if ((plain.test(text) && !RESERVED.test(text)) || LIMIT.test(text)) return text
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

function isEmpty(value: unknown): boolean {
  if (isScalar(value)) return false
  return Array.isArray(value) ? value.length === 0 : fieldsOf(value).length === 0
}

function fieldsOf(value: unknown): readonly (readonly [string, unknown])[] {
  if (typeof value !== 'object' || value === null) {
    throw new TypeError(`YAML: found a value of type ${typeof value}; accepted: JSON values`)
  }
  return Object.entries(value).filter(([, field]) => field !== undefined)
}

function requireDepth(depth: number): void {
  if (depth > DEPTH_MAX) throw new RangeError(`YAML: found more than ${DEPTH_MAX} levels`)
}

function indented(lines: readonly string[]): readonly string[] {
  return lines.map((line) => (line === '' ? '' : INDENT + line))
}
