/** Reads a whole file, up to a maximum size, with an identity that changes when it is replaced. */
import type { BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { fileModules } from './builtin-modules.js'

export interface WholeFile {
  readonly text: string
  /** Changes when the file is written or replaced, or a link points elsewhere. */
  readonly identity: string
}

const FILE_BYTES_MAX = 16 * 1024 * 1024
const NOT_A_FILE = 'found a directory or a device; accepted: a file'
const TOO_LARGE = 'found more than 16 MiB; accepted: up to that'

/** Rejects with a message that names the file. */
export async function readWholeFile(path: string): Promise<WholeFile> {
  const { constants, promises } = fileModules().fs
  let handle: FileHandle | undefined
  try {
    // Without this flag, opening a pipe would wait for a writer.
    handle = await promises.open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stats = await handle.stat({ bigint: true })
    if (!stats.isFile()) throw new Error(NOT_A_FILE)
    return { text: await readText(handle, stats), identity: identityOf(stats) }
  } catch (error) {
    throw readError(path, error)
  } finally {
    await handle?.close()
  }
}

/** Reads the file at once, for the start of a program; throws with a message that names it. */
export function readWholeFileSync(path: string): string {
  const { fs } = fileModules()
  try {
    const stats = fs.statSync(path)
    if (!stats.isFile()) throw new Error(NOT_A_FILE)
    if (stats.size > FILE_BYTES_MAX) throw new Error(TOO_LARGE)
    return fs.readFileSync(path, 'utf8')
  } catch (error) {
    throw readError(path, error)
  }
}

export async function readIdentity(path: string): Promise<string> {
  try {
    return identityOf(await fileModules().fs.promises.stat(path, { bigint: true }))
  } catch (error) {
    throw readError(path, error)
  }
}

/** Reads to the current end: a file may grow while it is read. */
async function readText(handle: FileHandle, { size }: BigIntStats): Promise<string> {
  let bytes = new Uint8Array(Math.min(Number(size), FILE_BYTES_MAX) + 1)
  let length = 0
  for (;;) {
    const { bytesRead } = await handle.read(bytes, length, bytes.length - length, length)
    if (bytesRead === 0) return decodeText(bytes.subarray(0, length))
    length += bytesRead
    if (length > FILE_BYTES_MAX) throw new Error(TOO_LARGE)
    if (length === bytes.length) bytes = enlarge(bytes, length + 1024)
  }
}

/** Keeps a byte order mark, which the parser of rules names. */
function decodeText(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}

function enlarge(bytes: Uint8Array, by: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(bytes.length + by)
  larger.set(bytes)
  return larger
}

function identityOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`
}

function readError(path: string, error: unknown): Error {
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  const why = code === undefined ? String(error).replace(/^Error: /, '') : (REASONS[code] ?? code)
  return new Error(`${path}: ${why}`, { cause: error })
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'the process may not read it',
}
