/**
 * The texts that were read last. Domains, keys and the values of busy callers come in every
 * request: comparing bytes with a text costs less than making it again.
 */

/** A power of two. With texts of some 24 characters about 64 KB in all. */
const PLACES = 1024

export class AsciiTexts {
  readonly #texts: string[] = Array.from({ length: PLACES }, () => '')

  /** The text of bytes below 0x80; the hash only says where it is kept, and may be any number. */
  get(bytes: Uint8Array, from: number, to: number, hash: number): string {
    const place = (hash ^ (hash >>> 16)) & (PLACES - 1)
    const known = this.#texts[place] ?? ''
    if (isText(known, bytes, from, to)) return known
    const text = textOf(bytes, from, to)
    this.#texts[place] = text
    return text
  }
}

function isText(text: string, bytes: Uint8Array, from: number, to: number): boolean {
  if (text.length !== to - from) return false
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== bytes[from + i]) return false
  return true
}

function textOf(bytes: Uint8Array, from: number, to: number): string {
  const { buffer, byteOffset } = bytes
  return Buffer.from(buffer, byteOffset + from, to - from).toString('latin1')
}
