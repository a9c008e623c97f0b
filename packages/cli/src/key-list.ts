/**
 * Parses a list of keys to import: CSV with a head line, or JSON lines. The whole file is parsed
 * before any key is sent.
 */
import type { KeyInput } from '@sluice/client'
import { show } from '@sluice/core'
import { readCsvLine } from './csv.js'
import { isRecord } from './guards.js'

const FIELDS = ['key', 'sha256', 'user', 'plan', 'name', 'state'] as const
const ACCEPTED = FIELDS.join(', ')
const SHA256 = /^[0-9a-f]{64}$/i
const PROBLEMS_MAX = 20
const LINES_MAX = 2_000_000
/** The bounds of the admin API, so that an invalid line is found before the first key is sent. */
const KEY = /^[\x21-\x7e]{16,512}$/
const LENGTHS_MAX: Readonly<Record<string, number>> = { user: 1024, plan: 1024, name: 128 }

export interface KeyList {
  readonly keys: readonly PlacedKey[]
  /** Problems with their lines, at most 20. Nothing is sent if there is one. */
  readonly problems: readonly string[]
}

export interface PlacedKey {
  readonly line: number
  readonly key: KeyInput
}

/** Messages never contain the value of a key. */
export function readKeyList(text: string, file: string): KeyList {
  const lines = text.replace(/^\ufeff/, '').split('\n')
  const keys: PlacedKey[] = []
  const problems: string[] = []
  const report = (line: number, what: string) => {
    if (problems.length < PROBLEMS_MAX) problems.push(`${file}:${line}: ${what}`)
  }
  if (lines.length > LINES_MAX) {
    report(LINES_MAX, `found more lines; accepted: ${LINES_MAX} at most`)
    return { keys, problems }
  }
  let columns: readonly string[] | undefined
  const lineOf = new Map<string, number>()
  for (const [index, raw] of lines.entries()) {
    const line = raw.trim()
    if (line === '') continue
    const isJson = columns === undefined && (keys.length > 0 || line.startsWith('{'))
    const read = isJson ? readJsonLine(line) : readCells(line, columns)
    if (typeof read === 'string') report(index + 1, read)
    else if (isNames(read)) columns = read
    else {
      const id = read['key'] ?? read['sha256']?.toLowerCase() ?? ''
      const first = lineOf.get(id)
      const problem = findProblem(read) ?? (first === undefined ? undefined : sameAs(first))
      if (problem === undefined) keys.push({ line: index + 1, key: read })
      else report(index + 1, problem)
      if (first === undefined) lineOf.set(id, index + 1)
    }
    // Without a head line the cells of a table have no meaning.
    if (columns === undefined && problems.length > 0 && keys.length === 0) break
  }
  // An interrupted pipe looks like this.
  if (columns === undefined && keys.length === 0 && problems.length === 0) report(1, NOTHING)
  return { keys, problems }
}

const NOTHING = 'found nothing; accepted: CSV with a first line of names, or JSON lines'

function sameAs(line: number): string {
  return `found the key of line ${line} again; accepted: each key once`
}

type Cells = Readonly<Record<string, string>>

function isNames(read: readonly string[] | Cells): read is readonly string[] {
  return Array.isArray(read)
}

/** The head of a table, one of its lines, or a problem. */
function readCells(line: string, columns: readonly string[] | undefined) {
  const cells = readCsvLine(line)
  if (cells === undefined) return 'found a quote that does not end; accepted: CSV, or JSON lines'
  if (columns === undefined) return readHead(cells)
  if (cells.length !== columns.length) {
    return `found ${cells.length} fields; accepted: ${columns.length}, as the first line has`
  }
  const pairs = columns.map((column, i) => [column, cells[i] ?? ''] as const)
  return Object.fromEntries(pairs.filter(([, value]) => value !== ''))
}

function readHead(cells: readonly string[]): readonly string[] | string {
  const names = cells.map((cell) => cell.toLowerCase())
  const isKnown = names.every((name) => FIELDS.some((field) => field === name))
  const hasKey = names.includes('key') || names.includes('sha256')
  if (isKnown && hasKey && new Set(names).size === names.length) return names
  return `found a first line without names of columns; accepted: key or sha256, and of ${ACCEPTED} each once`
}

function readJsonLine(line: string): Cells | string {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return 'found no JSON; accepted: an object on each line'
  }
  if (!isRecord(value)) return 'found no object; accepted: an object on each line'
  const unknown = Object.keys(value).find((name) => !FIELDS.some((field) => field === name))
  if (unknown !== undefined) return `found "${show(unknown)}"; accepted: ${ACCEPTED}`
  const isText = Object.values(value).every((each) => typeof each === 'string')
  return isText ? (value as Cells) : 'found a value that is no text; accepted: text'
}

function findProblem({ key, sha256, state, ...rest }: Cells): string | undefined {
  if ((key === undefined) === (sha256 === undefined)) {
    return 'found neither or both of key and sha256; accepted: one of them'
  }
  if (key !== undefined && !KEY.test(key)) {
    return `key: found ${key.length} characters, not shown; accepted: 16 to 512 of visible ASCII`
  }
  if (sha256 !== undefined && !SHA256.test(sha256)) return 'sha256: accepted: 64 hex digits'
  if (state !== undefined && state !== 'active' && state !== 'disabled') {
    return `state: found "${show(state)}"; accepted: active, disabled`
  }
  for (const [name, value] of Object.entries(rest)) {
    const most = LENGTHS_MAX[name] ?? 0
    if (value === '' || value.length > most) return `${name}: accepted: 1 to ${most} characters`
  }
  return undefined
}
