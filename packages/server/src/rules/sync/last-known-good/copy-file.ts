/** The file of the last known good rules: read like a store, appended to, compacted. */
import { dirname } from 'node:path'
import { type FileSystem, type OpenFile, codeOf, FILE_MODE } from '../../store/file/fs.js'
import type { StoredRecord } from '../../store/records.js'
import { CHUNK_RECORDS_MAX, type RecordChunk } from '../../store/rule-store.js'
import { CopyWriter } from './copy-writer.js'
import {
  type Ending,
  endLine,
  HEAD,
  isEndLine,
  newSum,
  readEnd,
  readLines,
  readRecord,
  recordLine,
} from './copy-lines.js'
import type { LastGoodVersions } from '../active-rules.js'

export interface CopyChunk extends RecordChunk {
  /** In the last chunk. */
  readonly standIns: LastGoodVersions | undefined
  /** In the last chunk: where the file ends. */
  readonly extent: Extent | undefined
}

const NOT_THE_LAST = { position: undefined, standIns: undefined, extent: undefined }

/** Where the batches of a file end. */
export interface Extent {
  /** End of the first batch, which holds every record. */
  readonly base: number
  /** End of the last batch. */
  readonly size: number
}

/**
 * Yields the chunks of a copy, of which only the last has a position; none if there is no file.
 * Throws if the file is damaged: then the chunks before must not be used.
 */
export async function* readCopy(fs: FileSystem, path: string): AsyncGenerator<CopyChunk, void> {
  const file = await openIfExists(fs, path)
  if (file === undefined) return
  try {
    yield* readBatches(file)
  } finally {
    await file.close()
  }
}

async function* readBatches(file: OpenFile): AsyncGenerator<CopyChunk, void> {
  let records: StoredRecord[] = []
  let sum = newSum()
  let ending: Ending | undefined
  let extent = { base: 0, size: 0 }
  let isFirst = true
  let damage: unknown
  for await (const { lines, at } of readLines(file, 0, Infinity)) {
    let place = at
    for (const line of lines) {
      place += line.length
      if (place === line.length) {
        if (!line.equals(HEAD)) throw new Error('its first line is not that of a copy')
      } else if (!isEndLine(line)) {
        sum.update(line)
        // It is damage only if an end line follows; otherwise the writer was interrupted here.
        if (damage === undefined) damage = catchError(() => records.push(readRecord(line)))
        // The first batch is passed on in pieces; changes only once their batch is complete.
        const isFull = ending === undefined && records.length >= CHUNK_RECORDS_MAX
        if (!isFull) continue
        yield { isWhole: isFirst, records, ...NOT_THE_LAST }
        isFirst = false
        records = []
      } else {
        if (damage !== undefined) throw damage
        ending = readEnd(line, sum)
        extent = { base: extent.base === 0 ? place : extent.base, size: place }
        yield { isWhole: isFirst, records, ...NOT_THE_LAST }
        isFirst = false
        records = []
        sum = newSum()
      }
    }
  }
  if (ending === undefined) throw new Error('it has no end')
  yield { isWhole: false, records: [], ...ending, extent }
}

function catchError(act: () => void): unknown {
  try {
    act()
    return undefined
  } catch (error) {
    return error
  }
}

async function openIfExists(fs: FileSystem, path: string): Promise<OpenFile | undefined> {
  try {
    return await fs.open(path, 'r')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

interface CopyBatch extends Ending {
  readonly records: readonly StoredRecord[]
  /** End of the last batch. */
  readonly at: number
  /**
   * Whether bytes after `at` may be cut off: an interrupted write of this or an earlier process.
   */
  readonly mayCut: boolean
}

/** Resolves to the new end of the file; rejects if another process writes to it. */
export async function appendBatch(fs: FileSystem, path: string, batch: CopyBatch): Promise<number> {
  const { at, mayCut, records } = batch
  const lines = Buffer.from(records.map(recordLine).join(''))
  const bytes = Buffer.concat([lines, endLine(batch, newSum().update(lines))])
  const file = await fs.open(path, 'r+', FILE_MODE)
  try {
    const { size } = await file.stat()
    if (size < at || (size > at && !mayCut)) throw new Error('another process writes to it')
    if (size > at) await file.truncate(at)
    await writeAt(file, bytes, at)
    await file.datasync()
  } finally {
    await file.close()
  }
  return at + bytes.length
}

/** Rewrites the file as a single batch of the present records; resolves to its new extent. */
export async function compactCopy(
  fs: FileSystem,
  path: string,
  { base, size }: Extent,
  ending: Ending,
): Promise<Extent> {
  const file = await fs.open(path, 'r')
  const writer = await CopyWriter.open(fs, path)
  try {
    const lastOf = await lastChanges(file, base, size)
    for await (const { lines, at } of readLines(file, HEAD.length, size)) {
      let place = at
      const kept = lines.filter((line) => {
        const lineStart = place
        place += line.length
        return !isEndLine(line) && isLast(line, lineStart, lastOf)
      })
      if (kept.length > 0) await writer.writeLines(Buffer.concat(kept))
    }
    const end = await writer.finish(ending, dirname(path), path)
    return { base: end, size: end }
  } catch (error) {
    await writer.discard()
    throw error
  } finally {
    await file.close()
  }
}

/** Returns the offset of the last change of each record that was changed after the first batch. */
async function lastChanges(
  file: OpenFile,
  base: number,
  size: number,
): Promise<ReadonlyMap<string, number>> {
  const lastOf = new Map<string, number>()
  for await (const { lines, at } of readLines(file, base, size)) {
    let place = at
    for (const line of lines) {
      if (!isEndLine(line)) lastOf.set(nameOf(readRecord(line)), place)
      place += line.length
    }
  }
  return lastOf
}

function isLast(line: Buffer, at: number, lastOf: ReadonlyMap<string, number>): boolean {
  const record = readRecord(line)
  const last = lastOf.get(nameOf(record))
  return last === undefined || (last === at && record.body !== null)
}

function nameOf({ kind, id }: StoredRecord): string {
  return `${kind} ${id}`
}

async function writeAt(file: OpenFile, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done)
    done += bytesWritten
  }
}
