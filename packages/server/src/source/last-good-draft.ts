/** A new last good copy being written: nobody sees it before it is whole and safe. */
import { randomBytes } from 'node:crypto'
import {
  type Disk,
  type DiskFile,
  FILE_MODE,
  removeIfThere,
  syncFolder,
  writeAll,
} from '../rule-store/file/disk.js'
import type { Stored } from '../rule-store/records.js'
import { type Ending, endLine, HEAD, newSum, recordLine } from './last-good-lines.js'

export class CopyDraft {
  readonly #disk: Disk
  readonly #path: string
  readonly #file: DiskFile
  readonly #sum = newSum()
  #size = 0

  private constructor(disk: Disk, path: string, file: DiskFile) {
    this.#disk = disk
    this.#path = path
    this.#file = file
  }

  static async open(disk: Disk, copy: string): Promise<CopyDraft> {
    const path = `${copy}.${randomBytes(6).toString('hex')}`
    const draft = new CopyDraft(disk, path, await disk.open(path, 'wx', FILE_MODE))
    await draft.append(HEAD)
    return draft
  }

  async put(records: readonly Stored[]): Promise<void> {
    if (records.length > 0) await this.putLines(Buffer.from(records.map(recordLine).join('')))
  }

  /** Lines of another copy, as they are. */
  async putLines(bytes: Buffer): Promise<void> {
    this.#sum.update(bytes)
    await this.append(bytes)
  }

  /** In place of the copy there was; resolves to its size. */
  async finish(ending: Ending, folder: string, copy: string): Promise<number> {
    await this.append(endLine(ending, this.#sum))
    await this.#file.sync()
    await this.#file.close()
    await this.#disk.rename(this.#path, copy)
    await syncFolder(this.#disk, folder)
    return this.#size
  }

  /** Never rejects: what is left behind is removed at the next start. */
  async drop(): Promise<void> {
    await this.#file.close().catch(() => {})
    await removeIfThere(this.#disk, this.#path).catch(() => {})
  }

  private async append(bytes: Buffer): Promise<void> {
    await writeAll(this.#file, bytes)
    this.#size += bytes.length
  }
}
