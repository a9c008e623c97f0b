/**
 * A file that is written whole now and then and at the end, if there is something new: drafted
 * beside its place, safe on disk, then put there. Whoever reads it finds one or the other.
 */
import { mkdir, open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'

export interface PeriodicFileOptions<Content extends string | Uint8Array> {
  readonly file: string
  readonly everyMs: number
  /** What it is to hold; undefined: it stays as it is. */
  readonly content: () => Content | undefined
  /** Told of each attempt that failed, with the reason, and of each that did not. */
  readonly onDone: (failure: unknown) => void
}

export class PeriodicFile<Content extends string | Uint8Array> {
  readonly #options: PeriodicFileOptions<Content>
  #timer: NodeJS.Timeout | undefined
  /** What the file holds; undefined: nothing that we wrote or know. */
  #written: Content | undefined
  #saving: Promise<void> | undefined

  constructor(options: PeriodicFileOptions<Content>) {
    this.#options = options
  }

  /** It holds this already. */
  markSaved(content: Content): void {
    this.#written = content
  }

  start(): void {
    this.#timer = setInterval(() => void this.save(), this.#options.everyMs).unref()
  }

  /** Never rejects, and never runs twice at a time. */
  save(): Promise<void> {
    const { onDone } = this.#options
    this.#saving ??= this.write()
      .then(() => onDone(undefined), onDone)
      .finally(() => {
        this.#saving = undefined
      })
    return this.#saving
  }

  /** With what is new since the last time. */
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

/** Where a file is written before it takes its place; left behind by a crash in between. */
export function draftOf(file: string): string {
  return `${file}.new`
}

function sameContent(one: string | Uint8Array, other: string | Uint8Array | undefined): boolean {
  if (typeof one === 'string' || typeof other === 'string') return one === other
  return other !== undefined && Buffer.compare(one, other) === 0
}
