/** Decompresses a copy of an answer while its bytes pass unchanged. */
import * as zlib from 'node:zlib'
import type { Transform } from 'node:stream'

/**
 * Bytes of one answer, decompressed: a hundred times the longest answer of a language model. More
 * can only be an attack, and would cost CPU without end.
 */
const DECODED_BYTES_MAX = 64 * 1024 * 1024
/** Bytes that wait to be decompressed. The copy never holds the answer up, and must not pile up. */
export const WAITING_BYTES_MAX = 4 * 1024 * 1024

/** An answer that broke off is decompressed as far as it came, instead of being an error. */
const UNFINISHED = { finishFlush: zlib.constants.Z_SYNC_FLUSH }
const UNFINISHED_BROTLI = { finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH }

const DECODERS: ReadonlyMap<string, () => Transform> = new Map([
  ['gzip', () => zlib.createGunzip(UNFINISHED)],
  ['x-gzip', () => zlib.createGunzip(UNFINISHED)],
  ['deflate', () => zlib.createInflate(UNFINISHED)],
  ['br', () => zlib.createBrotliDecompress(UNFINISHED_BROTLI)],
  ...zstdDecoders(),
])

/** Versions of Node before 22.15 have none. */
function zstdDecoders(): [string, () => Transform][] {
  const { createZstdDecompress: create } = zlib as { createZstdDecompress?: () => Transform }
  return create === undefined ? [] : [['zstd', create]]
}

export function canDecode(encoding: string): boolean {
  return DECODERS.has(encoding)
}

export interface ContentDecoderDeps {
  readonly onBytes: (bytes: Uint8Array) => void
  /** For tests. @default DECODED_BYTES_MAX */
  readonly bytesMax?: number | undefined
}

export class ContentDecoder {
  readonly #stream: Transform
  readonly #deps: ContentDecoderDeps
  readonly #ended: Promise<void>
  #bytes = 0
  #isBroken = false

  /** For an encoding that `canDecode`. */
  constructor(encoding: string, deps: ContentDecoderDeps) {
    const make = DECODERS.get(encoding)
    if (make === undefined) throw new Error(`encoding ${encoding}: not known`)
    this.#deps = deps
    this.#stream = make()
    this.#stream.on('data', (bytes: Buffer) => this.onData(bytes))
    this.#ended = new Promise((resolve) => {
      this.#stream.once('end', resolve)
      this.#stream.once('close', resolve)
    })
    this.#stream.on('error', () => this.giveUp())
  }

  /** Whether the copy could not be decompressed, or is beyond a bound. */
  get isBroken(): boolean {
    return this.#isBroken
  }

  push(bytes: Uint8Array): void {
    if (this.#isBroken) return
    if (this.#stream.writableLength > WAITING_BYTES_MAX) return this.giveUp()
    this.#stream.write(bytes)
  }

  /** Resolves when all that was pushed is decompressed. An answer that broke off is no error. */
  async end(): Promise<void> {
    if (this.#isBroken) return
    this.#stream.end()
    await this.#ended
  }

  private onData(bytes: Buffer): void {
    this.#bytes += bytes.length
    if (this.#bytes > (this.#deps.bytesMax ?? DECODED_BYTES_MAX)) return this.giveUp()
    this.#deps.onBytes(bytes)
  }

  private giveUp(): void {
    this.#isBroken = true
    this.#stream.destroy()
  }
}
