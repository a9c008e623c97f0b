/**
 * The format of the last known good file: a head line, then batches. A batch is a line of JSON for
 * each record and an end line with the store's position and a checksum. The first batch holds every
 * record, the others hold changes. Bytes after the last end line are an interrupted write.
 */
import { createHash, type Hash } from 'node:crypto'
import type { StoredRecord } from '../../store/records.js'
import { type OpenFile, readFrom } from '../../store/file/fs.js'
import type { Position } from '../../store/rule-store.js'
import type { LastGoodVersions } from '../active-rules.js'

export const HEAD = Buffer.from(`${JSON.stringify({ sluice: 'last good rules', format: 1 })}\n`)

/** More than one record of a store, or 10,000 last good versions in an end line. */
const LINE_BYTES_MAX = 256 * 1024 * 1024
const NEWLINE = 0x0a
const END = Buffer.from('{"end":')
/** `,"sum":"…"}` and a newline. */
const SUM_BYTES = 8 + 64 + 3
const SUM = /^,"sum":"([0-9a-f]{64})"\}\n$/

export interface Ending {
  readonly position: Position
  readonly standIns: LastGoodVersions
}

export function recordLine({ kind, id, version, body }: StoredRecord): string {
  return `${JSON.stringify({ kind, id, version, body })}\n`
}

/** Starts the checksum of a batch, which covers its end line too. */
export function newSum(): Hash {
  return createHash('sha256')
}

/** `sum` covers every line of the batch so far. */
export function endLine({ position, standIns }: Ending, sum: Hash): Buffer {
  const end = `${END.toString()}${JSON.stringify({ position, standIns })}`
  return Buffer.from(`${end},"sum":"${sum.update(end).digest('hex')}"}\n`)
}

export function isEndLine(line: Buffer): boolean {
  return line.subarray(0, END.length).equals(END)
}

/** Throws if the checksum does not match the lines that `sum` covers. */
export function readEnd(line: Buffer, sum: Hash): Ending {
  const text = line.subarray(0, Math.max(0, line.length - SUM_BYTES))
  const expectedSum = SUM.exec(line.toString('latin1', text.length))?.[1]
  if (expectedSum !== sum.update(text).digest('hex'))
    throw new Error('its checksum is not that of its text')
  // A line with the right checksum was written by Sluice.
  return (JSON.parse(line.toString('utf8')) as { readonly end: Ending }).end
}

/** Throws if the line is not a record. */
export function readRecord(line: Buffer): StoredRecord {
  const value: unknown = JSON.parse(line.toString('utf8'))
  if (typeof value === 'object' && value !== null && 'kind' in value && 'id' in value) {
    return value as StoredRecord
  }
  throw new Error('found a line that is not a record')
}

export interface Lines {
  /** Each with its newline. */
  readonly lines: readonly Buffer[]
  /** Offset of the first of them. */
  readonly at: number
}

/**
 * Yields the lines between two offsets, many at a time. A last line without newline is left out.
 */
export async function* readLines(file: OpenFile, from: number, to: number): AsyncGenerator<Lines> {
  let rest: Buffer = Buffer.alloc(0)
  let at = from
  for await (const piece of readFrom(file, from)) {
    const room = to - at - rest.length
    const read = room < piece.length ? piece.subarray(0, room) : piece
    const bytes = rest.length === 0 ? read : Buffer.concat([rest, read])
    if (bytes.length > LINE_BYTES_MAX) throw new Error(`found a line of ${bytes.length} bytes`)
    const lines: Buffer[] = []
    let start = 0
    for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, start)) {
      lines.push(bytes.subarray(start, end + 1))
      start = end + 1
    }
    yield { lines, at }
    at += start
    rest = bytes.subarray(start)
    if (read.length < piece.length) return
  }
}
