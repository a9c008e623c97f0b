/** One version as a line of the journal: JSON that ends with its own checksum. */
import { createHash } from 'node:crypto'
import type { Entry } from '../entry.js'

/** Of the lines below; a newer Sluice may write another, which an older one must not touch. */
const FORMAT = 1
/** Of one line with its end: what `COMMIT_CHANGES_MAX` large changes may come to. */
export const LINE_BYTES_MAX = 128 * 1024 * 1024

export interface JournalLine {
  readonly entry: Entry
  /** The first version of those that were written and made safe together. */
  readonly batch: number
  /** Which of the lock's holders wrote it. */
  readonly holder: number
}

const NEWLINE = 0x0a
const SUM_DIGITS = 32
/** `,"sum":"…"}` */
const SUM_LENGTH = 8 + SUM_DIGITS + 2
const SUM = /^,"sum":"([0-9a-f]{32})"\}$/

/** With its newline. */
export function encodeLine({ entry, batch, holder }: JournalLine): Buffer {
  const { version, mark, at, by, why, lineage, changes } = entry
  const head = { format: FORMAT, version, mark, at, by, why, lineage, batch, holder, changes }
  const text = JSON.stringify(head).slice(0, -1)
  return Buffer.from(`${text},"sum":"${sumOf(Buffer.from(text))}"}\n`)
}

/**
 * Without its newline. What is wrong with the line, for people, where it is not whole. Throws if it
 * is whole, and another release wrote it in its own way: that is nobody's to cut off.
 */
export function decodeLine(bytes: Buffer): JournalLine | string {
  const end = bytes.length - SUM_LENGTH
  const sum = end < 0 ? undefined : SUM.exec(bytes.toString('latin1', end))?.[1]
  if (sum === undefined) return 'it has no checksum at its end'
  if (sumOf(bytes.subarray(0, end)) !== sum) return 'its checksum is not that of its text'
  // What has the right checksum was written by Sluice.
  const { format, batch, holder, ...entry } = JSON.parse(bytes.toString('utf8')) as Entry & {
    readonly format: number
    readonly batch: number
    readonly holder: number
    readonly sum?: string
  }
  if (format !== FORMAT) {
    throw new Error(`its format is ${format}, and this Sluice writes ${FORMAT}`)
  }
  return { entry: entryOf(entry), batch, holder }
}

function entryOf({ version, mark, at, by, why, lineage, changes }: Entry): Entry {
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

/** Lines of pieces that follow each other. Stops after one that is longer than any may be. */
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
      const bytes = joined(parts, piece.subarray(from, end))
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

function joined(parts: readonly Buffer[], last: Buffer): Buffer {
  return parts.length === 0 ? last : Buffer.concat([...parts, last])
}
