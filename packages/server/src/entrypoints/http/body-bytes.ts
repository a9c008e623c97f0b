/** Buffers and text of request bodies that are read whole. */

/** Returns a larger buffer with the first `bytes` of this one; doubles, so few copies are made. */
export function growBuffer(buffer: Buffer, bytes: number, needed: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafe(Math.max(needed, 2 * bytes))
  buffer.copy(larger, 0, 0, bytes)
  return larger
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/** Undefined where the bytes are not UTF-8. */
export function decodeUtf8(bytes: Buffer): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    return undefined
  }
}
