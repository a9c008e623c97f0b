/**
 * The file system operations of the rule store, behind an interface so that tests can fail them.
 */
import type { Stats } from 'node:fs'
import {
  chmod,
  type FileHandle,
  link,
  mkdir,
  open,
  readdir,
  rename,
  stat,
  unlink,
} from 'node:fs/promises'

export type OpenFile = Pick<
  FileHandle,
  'read' | 'write' | 'truncate' | 'sync' | 'datasync' | 'stat' | 'close'
>

export interface FileSystem {
  open(path: string, flags: string, mode?: number): Promise<OpenFile>
  mkdir(folder: string): Promise<void>
  chmod(path: string, mode: number): Promise<void>
  readdir(folder: string): Promise<readonly string[]>
  rename(from: string, to: string): Promise<void>
  link(from: string, to: string): Promise<void>
  unlink(path: string): Promise<void>
  stat(path: string): Promise<Stats>
}

export const FOLDER_MODE = 0o700
export const FILE_MODE = 0o600
const PIECE_BYTES = 1024 * 1024
/** Most files are small: a piece of the largest size for each would keep the collector busy. */
const FIRST_PIECE_BYTES = 16 * 1024

export const realFileSystem: FileSystem = {
  open,
  mkdir: async (folder) => {
    await mkdir(folder, { recursive: true, mode: FOLDER_MODE })
  },
  chmod,
  readdir: (folder) => readdir(folder),
  rename,
  link,
  unlink,
  stat: (path) => stat(path),
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EIO: 'the disk failed',
  EROFS: 'the disk is read-only',
  ENOENT: 'it is gone',
  EACCES: 'the process may not write there',
  EPERM: 'the process may not write there',
}

/** Errors of a disk that no process can write to now. */
const STATES: readonly string[] = ['ENOSPC', 'EDQUOT', 'EIO', 'EROFS']
const DENIED: readonly string[] = ['EACCES', 'EPERM']

/** Whether a disk is full, read-only or failing: a state that may pass, unlike a wrong path. */
export function isDiskState(error: unknown): boolean {
  return STATES.includes(codeOf(error) ?? '')
}

/** Whether the disk or the permissions prevent writing: the files may still be readable. */
export function isUnwritable(error: unknown): boolean {
  return isDiskState(error) || DENIED.includes(codeOf(error) ?? '')
}

export function reasonOf(error: unknown): string {
  const code = codeOf(error)
  if (code !== undefined) return `${REASONS[code] ?? 'it failed'} (${code})`
  return error instanceof Error ? error.message : String(error)
}

/** Writes all bytes at the current position. */
export async function writeAll(file: OpenFile, bytes: Uint8Array): Promise<void> {
  let at = 0
  while (at < bytes.length) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at)
    at += bytesWritten
  }
}

/** Reads exactly `length` bytes; throws at the end of the file. */
export async function readAt(file: OpenFile, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length)
  let at = 0
  while (at < length) {
    const { bytesRead } = await file.read(bytes, at, length - at, offset + at)
    if (bytesRead === 0) throw new Error(`found the end of the file at byte ${offset + at}`)
    at += bytesRead
  }
  return bytes
}

/** Yields the file in pieces that grow up to `pieceBytes`, from an offset to its end. */
export async function* readFrom(
  file: OpenFile,
  offset: number,
  pieceBytes = PIECE_BYTES,
): AsyncGenerator<Buffer> {
  let size = Math.min(FIRST_PIECE_BYTES, pieceBytes)
  for (let at = offset; ; ) {
    const bytes = Buffer.allocUnsafe(size)
    const { bytesRead } = await file.read(bytes, 0, size, at)
    if (bytesRead === 0) return
    yield bytes.subarray(0, bytesRead)
    at += bytesRead
    if (bytesRead === size) size = Math.min(2 * size, pieceBytes)
  }
}

/** Reads the whole text of a small file; resolves to undefined if there is no file. */
export async function readSmallFile(
  fs: FileSystem,
  path: string,
  bytesMax: number,
): Promise<string | undefined> {
  let file: OpenFile
  try {
    file = await fs.open(path, 'r')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    const pieces: Buffer[] = []
    let length = 0
    for await (const piece of readFrom(file, 0, Math.min(bytesMax, PIECE_BYTES))) {
      pieces.push(piece)
      length += piece.length
      if (length > bytesMax) break
    }
    return Buffer.concat(pieces).toString('utf8')
  } finally {
    await file.close()
  }
}

/**
 * Replaces a file atomically: a reader, also after a crash, finds the old file or the new one,
 * complete. `draft` is a path in the same folder.
 */
export async function replaceFile(
  fs: FileSystem,
  folder: string,
  { draft, path, bytes }: { readonly draft: string; readonly path: string; readonly bytes: Buffer },
): Promise<void> {
  try {
    await writeFile(fs, draft, bytes)
    await fs.rename(draft, path)
  } catch (error) {
    // On a full disk the incomplete draft would take up space.
    await removeIfExists(fs, draft).catch(() => undefined)
    throw error
  }
  await syncFolder(fs, folder)
}

/** Writes and syncs a file; its name is durable after `syncFolder`. */
export async function writeFile(fs: FileSystem, path: string, bytes: Uint8Array): Promise<void> {
  const file = await fs.open(path, 'w', FILE_MODE)
  try {
    await writeAll(file, bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Makes the names in a folder durable. */
export async function syncFolder(fs: FileSystem, folder: string): Promise<void> {
  const file = await fs.open(folder, 'r')
  try {
    await file.sync()
  } catch (error) {
    // Some file systems cannot sync folders, and offer no alternative.
    if (!['EINVAL', 'EPERM', 'ENOTSUP'].includes(codeOf(error) ?? '')) throw error
  } finally {
    await file.close()
  }
}

export async function removeIfExists(fs: FileSystem, path: string): Promise<void> {
  try {
    await fs.unlink(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
}
