/** The part of the file system that the rule store uses, so that tests can let it fail. */
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

/** What a disk answers that cannot be written now, whoever asks. */
const STATES: readonly string[] = ['ENOSPC', 'EDQUOT', 'EIO', 'EROFS']
const DENIED: readonly string[] = ['EACCES', 'EPERM']

/** Whether a disk is full, read-only or failing: a state that may pass, and no wrong name. */
export function isDiskState(error: unknown): boolean {
  return STATES.includes(codeOf(error) ?? '')
}

/** Whether it is that, or closed to this process: what is there may still be read. */
export function isUnwritable(error: unknown): boolean {
  return isDiskState(error) || DENIED.includes(codeOf(error) ?? '')
}

export function reasonOf(error: unknown): string {
  const code = codeOf(error)
  if (code !== undefined) return `${REASONS[code] ?? 'it failed'} (${code})`
  return error instanceof Error ? error.message : String(error)
}

/** All of it, at the end of a file opened to append, or at its start. */
export async function writeAll(file: OpenFile, bytes: Uint8Array): Promise<void> {
  let at = 0
  while (at < bytes.length) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at)
    at += bytesWritten
  }
}

/** Exactly so many bytes. */
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

/** What is there, in pieces, from a byte on. */
export async function* readFrom(
  file: OpenFile,
  offset: number,
  pieceBytes = PIECE_BYTES,
): AsyncGenerator<Buffer> {
  for (let at = offset; ; ) {
    const bytes = Buffer.allocUnsafe(pieceBytes)
    const { bytesRead } = await file.read(bytes, 0, pieceBytes, at)
    if (bytesRead === 0) return
    yield bytes.subarray(0, bytesRead)
    at += bytesRead
  }
}

/** The whole text of a small file; undefined: there is none. */
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
 * A file in place of another: whoever reads it meanwhile, or after a crash, finds the old one or
 * the new one, whole. `draft` is in the same folder.
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
    // On a full disk half a draft would only be in the way.
    await removeIfExists(fs, draft).catch(() => undefined)
    throw error
  }
  await syncFolder(fs, folder)
}

/** Safe on disk, but for its name. */
export async function writeFile(fs: FileSystem, path: string, bytes: Uint8Array): Promise<void> {
  const file = await fs.open(path, 'w', FILE_MODE)
  try {
    await writeAll(file, bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Names in a folder are safe when the folder is. */
export async function syncFolder(fs: FileSystem, folder: string): Promise<void> {
  const file = await fs.open(folder, 'r')
  try {
    await file.sync()
  } catch (error) {
    // Where folders cannot be synced there is nothing that could be done instead.
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
