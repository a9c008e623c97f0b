/**
 * Writes a file periodically and on close, if its content has changed. It writes a temporary file,
 * syncs it and renames it, so that a reader gets the old or the new content, never a part.
 */
import { mkdir, open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'

export interface PeriodicFileOptions<Content extends string | Uint8Array> {
  readonly file: string
  readonly everyMs: number
  /** The new content; undefined: the file stays unchanged. */
  readonly content: () => Content | undefined
  /** Called after each attempt, with the error if it failed. */
  readonly onDone: (failure: unknown) => void
}

export class PeriodicFile<Content extends string | Uint8Array> {
  readonly #options: PeriodicFileOptions<Content>
  #timer: NodeJS.Timeout | undefined
  /** The content of the file; undefined if it is not known. */
  #written: Content | undefined
  #saving: Promise<void> | undefined

  constructor(options: PeriodicFileOptions<Content>) {
    this.#options = options
  }

  /** Records that the file has this content already. */
  markSaved(content: Content): void {
    this.#written = content
  }

  start(): void {
    this.#timer = setInterval(() => void this.save(), this.#options.everyMs).unref()
  }

  /** Never rejects, and runs once at a time. */
  save(): Promise<void> {
    const { onDone } = this.#options
    this.#saving ??= this.write()
      .then(() => onDone(undefined), onDone)
      .finally(() => {
        this.#saving = undefined
      })
    return this.#saving
  }

  /** Saves what has changed since the last write. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#saving
    await this.save()
  }

  private async write(): Promise<void> {
    const { file, content } = this.#options
    const next = content()
    if (next === undefined || sameContent(next, this.#written)) return
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    const draft = draftOf(file)
    const handle = await open(draft, 'w', 0o600)
    try {
      await handle.writeFile(next)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(draft, file)
    this.#written = next
  }
}

/** The name of the temporary file; a crash may leave it behind. */
export function draftOf(file: string): string {
  return `${file}.new`
}

function sameContent(one: string | Uint8Array, other: string | Uint8Array | undefined): boolean {
  if (typeof one === 'string' || typeof other === 'string') return one === other
  return other !== undefined && Buffer.compare(one, other) === 0
}
