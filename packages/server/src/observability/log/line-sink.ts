/**
 * Lines on their way to a file descriptor: written in the background, in order, within bounds.
 *
 * Whoever reads our lines may stop reading. Then nothing here waits and nothing grows: what does
 * not fit is dropped and counted. The asynchronous destination of pino bounds its buffer as well,
 * but empties it with blocking writes when the process exits, and tries for ever where the reader
 * is stuck or gone; a server that must end in time cannot have that.
 */
import { close, constants, fstatSync, openSync, write, writeSync } from 'node:fs'

export interface LineSink {
  /** Whether the line was taken; it ends with a line end. */
  write(line: string): boolean
  /** Whether so much waits to be written that lines which can wait should. */
  isBusy(): boolean
  /** Settles when everything is written, or after a second of trying. */
  flush(): Promise<void>
  /** Writes what can be written at once, for a process that ends without waiting. */
  flushNow(): void
  /** Lines that were taken and could not be written. */
  lost(): number
}

/** Characters that wait at most. */
const WAITING_MAX = 1024 * 1024
const WAITING_MANY = WAITING_MAX / 2
/** PIPE_BUF: so much is written to a pipe whole or not at all, so lines of workers never mix. */
const CHUNK_BYTES_MAX = 4096
const RETRY_MS = 50
const FLUSH_MS_MAX = 1000

export function createLineSink(fd: number): LineSink {
  return new DescriptorSink(fd)
}

/**
 * The same pipe under a descriptor that does not block: a write that waits for a reader occupies a
 * thread, and the process cannot exit before it returns. Only Linux can open a pipe again;
 * elsewhere, and for what is no pipe, the descriptor itself is returned.
 */
export function nonBlocking(fd: number): number {
  try {
    if (!fstatSync(fd).isFIFO()) return fd
    const again = openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK)
    if (fstatSync(again).isFIFO()) return again
    close(again)
  } catch {
    // A pipe of another user cannot be opened again; it can still be written to.
  }
  return fd
}

class DescriptorSink implements LineSink {
  readonly #fd: number
  #lines: string[] = []
  #waiting = 0
  #isWriting = false
  /** Nobody will ever read again. */
  #isBroken = false
  #lost = 0
  #onIdle: (() => void)[] = []

  constructor(fd: number) {
    this.#fd = fd
  }

  write(line: string): boolean {
    if (this.#isBroken || this.#waiting + line.length > WAITING_MAX) return false
    this.#lines.push(line)
    this.#waiting += line.length
    if (!this.#isWriting) this.next()
    return true
  }

  isBusy(): boolean {
    return this.#waiting > WAITING_MANY
  }

  lost(): number {
    return this.#lost
  }

  flush(): Promise<void> {
    if (!this.#isWriting) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, FLUSH_MS_MAX)
      this.#onIdle.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  flushNow(): void {
    // A chunk under way stays so: its thread ends before the process does.
    while (this.#lines.length > 0 && !this.#isBroken) {
      const { bytes, lines } = this.takeChunk()
      try {
        for (let from = 0; from < bytes.length; ) from += writeSync(this.#fd, bytes, from)
      } catch {
        this.giveUp(lines)
      }
    }
  }

  private next(): void {
    this.#isWriting = this.#lines.length > 0
    if (this.#isWriting) return this.writeChunk(this.takeChunk())
    const waiters = this.#onIdle
    this.#onIdle = []
    for (const notify of waiters) notify()
  }

  /** Whole lines, as many as go into one write. */
  private takeChunk(): PendingWrite {
    let length = 0
    let lines = 0
    for (const line of this.#lines) {
      length += Buffer.byteLength(line)
      if (lines > 0 && length > CHUNK_BYTES_MAX) break
      lines++
    }
    const text = this.#lines.splice(0, lines).join('')
    this.#waiting -= text.length
    return { bytes: Buffer.from(text), lines }
  }

  private writeChunk({ bytes, lines }: PendingWrite): void {
    write(this.#fd, bytes, (error, written) => {
      if (error === null) {
        if (written === bytes.length) return this.next()
        return this.writeChunk({ bytes: bytes.subarray(written), lines })
      }
      if (error.code === 'EAGAIN') {
        setTimeout(() => this.writeChunk({ bytes, lines }), RETRY_MS).unref()
        return
      }
      // A full disk may be emptied again; a reader that is gone does not come back.
      if (error.code === 'EPIPE' || error.code === 'EBADF') this.giveUp(lines)
      else this.#lost += lines
      this.next()
    })
  }

  private giveUp(lines: number): void {
    this.#isBroken = true
    this.#lost += lines + this.#lines.length
    this.#lines = []
    this.#waiting = 0
  }
}

interface PendingWrite {
  readonly bytes: Buffer
  readonly lines: number
}
