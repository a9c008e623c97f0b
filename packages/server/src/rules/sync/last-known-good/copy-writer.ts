/** Writes a new last known good file under a draft name, and renames it when it is safe on disk. */
import { randomBytes } from 'node:crypto'
import {
  type FileSystem,
  type OpenFile,
  FILE_MODE,
  removeIfExists,
  syncFolder,
  writeAll,
} from '../../store/file/fs.js'
import type { StoredRecord } from '../../store/records.js'
import { type Ending, endLine, HEAD, newSum, recordLine } from './copy-lines.js'

export class CopyWriter {
  readonly #fs: FileSystem
  readonly #path: string
  readonly #file: OpenFile
  readonly #sum = newSum()
  #size = 0

  private constructor(fs: FileSystem, path: string, file: OpenFile) {
    this.#fs = fs
    this.#path = path
    this.#file = file
  }

  static async open(fs: FileSystem, copy: string): Promise<CopyWriter> {
    const path = `${copy}.${randomBytes(6).toString('hex')}`
    const writer = new CopyWriter(fs, path, await fs.open(path, 'wx', FILE_MODE))
    await writer.append(HEAD)
    return writer
  }

  async writeRecords(records: readonly StoredRecord[]): Promise<void> {
    if (records.length > 0) await this.writeLines(Buffer.from(records.map(recordLine).join('')))
  }

  /** Copies lines of another file unchanged. */
  async writeLines(bytes: Buffer): Promise<void> {
    this.#sum.update(bytes)
    await this.append(bytes)
  }

  /** Replaces the file; resolves to its size. */
  async finish(ending: Ending, folder: string, copy: string): Promise<number> {
    await this.append(endLine(ending, this.#sum))
    await this.#file.sync()
    await this.#file.close()
    await this.#fs.rename(this.#path, copy)
    await syncFolder(this.#fs, folder)
    return this.#size
  }

  /** Never rejects: a draft that stays is removed at the next start. */
  async discard(): Promise<void> {
    await this.#file.close().catch(() => {})
    await removeIfExists(this.#fs, this.#path).catch(() => {})
  }

  private async append(bytes: Buffer): Promise<void> {
    await writeAll(this.#file, bytes)
    this.#size += bytes.length
  }
}
