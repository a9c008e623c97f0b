/**
 * Reads values as YAML 1.1 has them, in which envoyproxy/ratelimit reads its files: `yes` is true,
 * a map may be merged into another with `<<`, and an empty field is an absent one.
 */
import {
  fieldOf,
  type Located,
  type MapEntry,
  type MapNode,
  type Node,
  readBoolean,
  readNumber,
  readText,
  reportAt,
} from '@sluice/core/config-reader'

const UINT32_MAX = 0xffff_ffff
const ACCEPTED_UINT32 = `a whole number from 0 to ${UINT32_MAX}, in decimal digits`

const MERGE_KEY = '<<'
const TRUE_WORDS = new Set(['yes', 'on', 'y'])
const FALSE_WORDS = new Set(['no', 'off', 'n'])

const INTEGER = /^[+-]?\d+$|^0[xo][\da-f]+$/i
/** A leading zero means an octal number to the program, and none to YAML 1.2. */
const DECIMAL = /^(?:0|[1-9][\d_]*)$/
const CONTROL_CHARACTER = /\p{Cc}/u

/** Returns a field; undefined if it is absent or has no value. */
export function present(map: Located<MapNode>, key: string): Located | undefined {
  const located = fieldOf(map, key)
  const isNull = located?.node.kind === 'scalar' && located.node.value === null
  return isNull ? undefined : located
}

/**
 * Reads text, also where YAML sees a number or a boolean: the text is as written. A decimal
 * fraction is refused, as the program refuses it.
 */
export function readName(
  located: Located,
  text: string,
  { accepted, most }: { readonly accepted: string; readonly most: number },
): string | undefined {
  const { node } = located
  if (node.kind === 'scalar' && typeof node.value === 'boolean') {
    return sourceOf(text, node.at, String(node.value))
  }
  if (node.kind === 'scalar' && typeof node.value === 'number') {
    const source = node.source ?? String(node.value)
    if (INTEGER.test(source)) return source
    return reportAt(located, 'wrong-type', { accepted: `${accepted}, in quotes` })
  }
  const name = readText(located, { accepted, most })
  if (name === undefined || !CONTROL_CHARACTER.test(name)) return name
  return reportAt(located, 'bad-value', { accepted: `${accepted}, without control characters` })
}

/** `True` is true, and its text is `True`. */
function sourceOf(text: string, at: number, value: string): string {
  const source = at < 0 ? '' : text.slice(at, at + value.length)
  return source.toLowerCase() === value ? source : value
}

/** An absent flag is false. */
export function readFlag(map: Located<MapNode>, key: string): boolean {
  const located = present(map, key)
  if (located === undefined) return false
  const { node } = located
  const word = node.kind === 'scalar' ? String(node.value).toLowerCase() : ''
  if (TRUE_WORDS.has(word)) return true
  if (FALSE_WORDS.has(word)) return false
  return readBoolean(located) ?? false
}

export function readUint32(located: Located): number | undefined {
  const { node } = located
  const accepted = ACCEPTED_UINT32
  const digits = node.kind === 'scalar' && typeof node.value === 'string' ? node.value : undefined
  // 1_000 is a number in YAML 1.1 and a text in 1.2.
  if (digits !== undefined && DECIMAL.test(digits) && digits.includes('_')) {
    return withinUint32(located, Number(digits.replaceAll('_', '')))
  }
  const value = readNumber(located, accepted)
  if (value === undefined) return undefined
  const source = node.kind === 'scalar' ? node.source : undefined
  if (source !== undefined && !DECIMAL.test(source.replace(/^-/, ''))) {
    return reportAt(located, 'wrong-type', { accepted })
  }
  return withinUint32(located, value)
}

function withinUint32(located: Located, value: number): number | undefined {
  if (Number.isInteger(value) && value >= 0 && value <= UINT32_MAX) return value
  return reportAt(located, 'bad-number', { accepted: ACCEPTED_UINT32 })
}

/** Returns a map with what it merges: `{ <<: *base, unit: day }`. Its own keys come first. */
export function mergeMap<T extends Node>(located: Located<T>): Located {
  const { node } = located
  if (node.kind !== 'map' || !node.entries.has(MERGE_KEY)) return located
  const merged = new Map<string, MapEntry>()
  if (!collect(node, merged)) return located
  return { ...located, node: { ...node, entries: merged } }
}

/** Returns false if something else than a map would be merged; the key is then an unknown one. */
function collect(node: Node, merged: Map<string, MapEntry>): boolean {
  if (node.kind !== 'map') return false
  for (const [key, entry] of node.entries) {
    if (key !== MERGE_KEY && !merged.has(key)) merged.set(key, entry)
  }
  const base = node.entries.get(MERGE_KEY)?.value
  if (base === undefined) return true
  return base.kind === 'list'
    ? base.items.every((item) => collect(item, merged))
    : collect(base, merged)
}
