/**
 * The lines of a last good copy. A head; then batches: a line of JSON for each record, and one that
 * ends the batch with where the store stood and a sum of it all. The first batch is everything, the
 * others are changes. What follows the last end was being written when a process ended.
 */
import { createHash, type Hash } from 'node:crypto'
import type { StoredRecord } from '../../store/records.js'
import { type OpenFile, readFrom } from '../../store/file/fs.js'
import type { Position } from '../../store/rule-store.js'
import type { LastGoodVersions } from '../active-rules.js'

export const HEAD = Buffer.from(`${JSON.stringify({ sluice: 'last good rules', format: 1 })}\n`)

/** Above what a store keeps in one record, and above ten thousand rules that stand in. */
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

/** A sum of lines, of which the end is the last. */
export function newSum(): Hash {
  return createHash('sha256')
}

/** `sum` has seen every line of the batch. */
export function endLine({ position, standIns }: Ending, sum: Hash): Buffer {
  const end = `${END.toString()}${JSON.stringify({ position, standIns })}`
  return Buffer.from(`${end},"sum":"${sum.update(end).digest('hex')}"}\n`)
}

export function isEndLine(line: Buffer): boolean {
  return line.subarray(0, END.length).equals(END)
}

/** Throws if it is not the end of the lines that `sum` has seen. */
export function readEnd(line: Buffer, sum: Hash): Ending {
  const text = line.subarray(0, Math.max(0, line.length - SUM_BYTES))
  const expectedSum = SUM.exec(line.toString('latin1', text.length))?.[1]
  if (expectedSum !== sum.update(text).digest('hex'))
    throw new Error('its checksum is not that of its text')
  // What has the right sum was written here.
  return (JSON.parse(line.toString('utf8')) as { readonly end: Ending }).end
}

/** Throws if it is none. */
export function readRecord(line: Buffer): StoredRecord {
  const value: unknown = JSON.parse(line.toString('utf8'))
  if (typeof value === 'object' && value !== null && 'kind' in value && 'id' in value) {
    return value as StoredRecord
  }
  throw new Error('it is no record')
}

export interface Lines {
  /** Each with its newline. */
  readonly lines: readonly Buffer[]
  /** Where the first of them begins. */
  readonly at: number
}

/** The lines from one byte to another, many at a time. What ends without a newline is left out. */
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
