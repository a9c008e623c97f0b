/**
 * Writes lines to a file descriptor in the background, in order and with a bounded buffer.
 *
 * If the reader stops reading, nothing blocks and nothing grows: lines that do not fit are dropped
 * and counted. The asynchronous destination of pino bounds its buffer as well, but drains it with
 * blocking writes at exit and retries forever if the reader is stuck or gone; a server that must
 * shut down in time cannot use that.
 */
import { close, constants, fstatSync, openSync, write, writeSync } from 'node:fs'

export interface LineSink {
  /** Takes a line with its line end; returns whether it was accepted. */
  write(line: string): boolean
  /** Whether the buffer is so full that deferrable lines should wait. */
  isBusy(): boolean
  /** Resolves when everything is written, or after one second. */
  flush(): Promise<void>
  /** Writes synchronously what can be written, for a process that exits immediately. */
  flushNow(): void
  /** Lines that were accepted but could not be written. */
  lost(): number
}

/** Buffered characters at most. */
const WAITING_MAX = 1024 * 1024
const WAITING_MANY = WAITING_MAX / 2
/** PIPE_BUF: writes up to this size are atomic, so lines of workers never mix. */
const CHUNK_BYTES_MAX = 4096
const RETRY_MS = 50
const FLUSH_MS_MAX = 1000

export function createLineSink(fd: number): LineSink {
  return new DescriptorSink(fd)
}

/**
 * Opens the same pipe as a non-blocking descriptor: a blocking write occupies a thread, and the
 * process cannot exit before it returns. Only Linux can reopen a pipe; elsewhere, and if it is not
 * a pipe, the descriptor itself is returned.
 */
export function nonBlocking(fd: number): number {
  try {
    if (!fstatSync(fd).isFIFO()) return fd
    const again = openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK)
    if (fstatSync(again).isFIFO()) return again
    close(again)
  } catch {
    // A pipe of another user cannot be reopened, but it can be written to.
  }
  return fd
}

class DescriptorSink implements LineSink {
  readonly #fd: number
  #lines: string[] = []
  #waiting = 0
  #isWriting = false
  /** The reader is gone for good. */
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
    // A chunk in flight is left alone: its thread finishes before the process exits.
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

  /** Takes as many whole lines as fit into one write. */
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
      // A full disk may recover; a closed pipe does not.
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
