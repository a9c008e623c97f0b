/** Encodes a version as a line of the journal: JSON that ends with its own checksum. */
import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { VersionEntry } from '../version-entry.js'
import type { StoredRecord } from '../records.js'
import type { PastChange } from '../rule-store.js'

/** The format of the lines below. A newer Sluice may write another one, which is not modified. */
const FORMAT = 1
/** The format of a base of several lines, which 0.1.0 refuses instead of reading as versions. */
const FORMAT_OF_PARTS = 2
/** Size of one line with its newline: enough for `COMMIT_CHANGES_MAX` large changes. */
export const LINE_BYTES_MAX = 128 * 1024 * 1024

/**
 * The start of a compacted journal: every record as of a version, the newest whose own line is
 * gone. 0.1.0 reads a base of one line as a version that created all records.
 */
export interface Base {
  /** Counts from 1; a large base has several lines. */
  readonly part: number
  readonly isLast: boolean
  /** The first version of the lineage, and whether another lineage came before it. */
  readonly lineageStart: number
  readonly isAdopted: boolean
}

/** A record of a base, with the version of its last change. */
export type BaseChange = PastChange & { readonly version: number }

export interface JournalLine {
  /** Set for a line of a base, whose `changes` are `BaseChange`s. */
  readonly base?: Base | undefined
  readonly entry: VersionEntry
  /** The first version of the batch that was written and synced together. */
  readonly batch: number
  /** The lock number of the process that wrote it. */
  readonly holder: number
}

const NEWLINE = 0x0a
const SUM_DIGITS = 32
/** `,"sum":"…"}` */
const SUM_LENGTH = 8 + SUM_DIGITS + 2
const SUM = /^,"sum":"([0-9a-f]{32})"\}$/

/** Returns the line with its newline. */
export function encodeLine({ entry, batch, holder }: JournalLine): Buffer {
  const { version, mark, at, by, why, lineage, changes } = entry
  const head = { format: FORMAT, version, mark, at, by, why, lineage, batch, holder, changes }
  const text = JSON.stringify(head).slice(0, -1)
  return Buffer.from(`${text},"sum":"${sumOf(Buffer.from(text))}"}\n`)
}

/**
 * Decodes a line without its newline. Returns what is wrong, as text, if the line is incomplete.
 * Throws if it is complete, but in the format of another release: then it must not be cut off.
 */
export function decodeLine(bytes: Buffer): JournalLine | string {
  const end = bytes.length - SUM_LENGTH
  const sum = end < 0 ? undefined : SUM.exec(bytes.toString('latin1', end))?.[1]
  if (sum === undefined) return 'it has no checksum at its end'
  if (sumOf(bytes.subarray(0, end)) !== sum) return 'its checksum is not that of its text'
  // A line with the right checksum was written by Sluice.
  const { format, batch, holder, base, ...entry } = JSON.parse(
    bytes.toString('utf8'),
  ) as VersionEntry & {
    readonly format: number
    readonly base?: Base
    readonly batch: number
    readonly holder: number
    readonly sum?: string
  }
  if (format !== FORMAT && (format !== FORMAT_OF_PARTS || base === undefined)) {
    throw new Error(`its format is ${format}, and this Sluice writes ${FORMAT}`)
  }
  return { entry: entryOf(entry), batch, holder, base }
}

export interface BaseHead {
  readonly version: number
  readonly mark: string
  readonly lineage: string
  readonly at: string
  readonly lineageStart: number
  readonly isAdopted: boolean
  readonly holder: number
}

/** Size of one line of a base: well below `LINE_BYTES_MAX`, and bounded in memory. */
const BASE_LINE_BYTES = 64 * 1024 * 1024
const PIECE_LENGTH = 256 * 1024

/** Yields the lines of a base in pieces, each in its own turn of the event loop. */
export async function* encodeBase(
  head: BaseHead,
  records: Iterable<StoredRecord>,
  lineBytes = BASE_LINE_BYTES,
): AsyncGenerator<Buffer> {
  let part = 1
  let pieces: Buffer[] = []
  let text = ''
  let length = 0
  let isFirst = true
  for (const { kind, id, body, version } of records) {
    if (length + text.length >= lineBytes) {
      yield* baseLine(head, { part, isLast: false }, [...pieces, Buffer.from(text)])
      part++
      pieces = []
      text = ''
      length = 0
      isFirst = true
    }
    const change: BaseChange = { kind, id, before: null, after: body, version }
    text += `${isFirst ? '' : ','}${JSON.stringify(change)}`
    isFirst = false
    if (text.length < PIECE_LENGTH) continue
    const piece = Buffer.from(text)
    pieces.push(piece)
    length += piece.length
    text = ''
    await nextTurn()
  }
  yield* baseLine(head, { part, isLast: true }, [...pieces, Buffer.from(text)])
}

async function* baseLine(
  { version, mark, lineage, at, lineageStart, isAdopted, holder }: BaseHead,
  { part, isLast }: Pick<Base, 'part' | 'isLast'>,
  changes: readonly Buffer[],
): AsyncGenerator<Buffer> {
  const base: Base = { part, isLast, lineageStart, isAdopted }
  const why = `all that was stored as of version ${version}; older versions are no longer kept`
  const format = part === 1 && isLast ? FORMAT : FORMAT_OF_PARTS
  const names = { format, version, mark, at, by: 'sluice', why, lineage, batch: version, holder }
  const start = JSON.stringify({ ...names, base, changes: [] }).slice(0, -2)
  const hash = createHash('sha256')
  for (const piece of [Buffer.from(start), ...changes, Buffer.from(']')]) {
    hash.update(piece)
    yield piece
    await nextTurn()
  }
  yield Buffer.from(`,"sum":"${hash.digest('hex').slice(0, SUM_DIGITS)}"}\n`)
}

function entryOf({ version, mark, at, by, why, lineage, changes }: VersionEntry): VersionEntry {
  return { version, mark, at, by, why, lineage, changes }
}

function sumOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, SUM_DIGITS)
}

export interface RawLine {
  readonly offset: number
  /** Without its newline. */
  readonly bytes: Buffer
  /** False for what follows the last newline. */
  readonly isEnded: boolean
}

/** Splits consecutive pieces of a file into lines. Stops after a line of more than the maximum. */
export async function* splitLines(
  pieces: AsyncIterable<Buffer>,
  start: number,
): AsyncGenerator<RawLine> {
  let offset = start
  let parts: Buffer[] = []
  let length = 0
  for await (const piece of pieces) {
    let from = 0
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, from)) {
      const bytes = joinPieces(parts, piece.subarray(from, end))
      yield { offset, bytes, isEnded: true }
      offset += bytes.length + 1
      parts = []
      length = 0
      from = end + 1
    }
    if (from === piece.length) continue
    parts.push(piece.subarray(from))
    length += piece.length - from
    if (length > LINE_BYTES_MAX) break
  }
  if (length > 0) yield { offset, bytes: Buffer.concat(parts), isEnded: false }
}

function joinPieces(parts: readonly Buffer[], last: Buffer): Buffer {
  return parts.length === 0 ? last : Buffer.concat([...parts, last])
}
