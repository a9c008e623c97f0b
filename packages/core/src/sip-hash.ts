/**
 * SipHash-1-3: a keyed hash, so that callers cannot choose values that collide.
 *
 * A 64-bit word is two 32-bit halves, because BigInt costs ten times as much. Measured: about 0.1
 * us for a short caller.
 */

export interface Hash64 {
  readonly hi: number
  readonly lo: number
}

/** 16 hex digits. */
export function formatHash({ hi, lo }: Hash64): string {
  return (hi >>> 0).toString(16).padStart(8, '0') + (lo >>> 0).toString(16).padStart(8, '0')
}

/** 128 bits as four 32-bit words, lowest first. */
export interface SipKey {
  readonly k0: number
  readonly k1: number
  readonly k2: number
  readonly k3: number
}

export function sipKey(bytes: Uint8Array): SipKey {
  if (bytes.length !== 16) throw new RangeError(`A key has 16 bytes, got ${bytes.length}`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, 16)
  return {
    k0: view.getInt32(0, true),
    k1: view.getInt32(4, true),
    k2: view.getInt32(8, true),
    k3: view.getInt32(12, true),
  }
}

/**
 * A class, not an object literal, here and in other places on the decision path, because the object
 * lives while a call waits for the store. V8 tracks the allocation sites of literals: if many
 * survive a scavenge, it allocates all later ones in the old generation, where collecting
 * short-lived objects is expensive.
 */
class Hash implements Hash64 {
  readonly hi: number
  readonly lo: number

  constructor(hi: number, lo: number) {
    this.hi = hi
    this.lo = lo
  }
}

// The buffer of one call, never read by the next: the words of the message, low half first. Shared,
// because a buffer for each call makes the hash of a short caller five times as slow (measured).
let words = new Int32Array(256)

/**
 * Hashes a list of texts. One short text is hashed as its bytes, the way SipHash frames them. For a
 * list, the characters are followed by the length and width of each text and the number of texts,
 * so that ('ab', 'c') and ('a', 'bc') differ; its last byte has the high bit set, which that of a
 * short text never has. Any UTF-16 text has one encoding, lone surrogates included.
 */
export function hashTexts(key: SipKey, texts: readonly string[]): Hash64 {
  const only = texts[0]
  if (texts.length === 1 && only !== undefined && only.length <= SHORT_MAX) {
    const end = appendNarrow(only, 0)
    if (end !== -1) return hashShort(key, only.length, end)
  }
  return hashList(key, texts)
}

const SHORT_MAX = 127

function hashShort(key: SipKey, length: number, end: number): Hash64 {
  const count = (length >> 3) + 1
  for (let at = end; at < 2 * count; at++) words[at] = 0
  const last = 2 * count - 1
  words[last] = (words[last] ?? 0) | (length << 24)
  return sipHash13(key, words, count)
}

function hashList(key: SipKey, texts: readonly string[]): Hash64 {
  const count = texts.length
  let size = 0
  for (const text of texts) {
    reserve(size + (text.length >> 1) + 4)
    const end = appendNarrow(text, size)
    size = alignToEven(end === -1 ? appendWide(text, size) : end)
  }
  reserve(size + count + 4)
  for (const text of texts) words[size++] = (text.length << 1) | (isWide(text) ? 1 : 0)
  if ((size & 1) === 0) words[size++] = 0
  words[size++] = count | 0x80000000
  return sipHash13(key, words, size >> 1)
}

function isWide(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0xff) return true
  return false
}

/** Packs four characters into a half word; returns -1 if one does not fit into a byte. */
function appendNarrow(text: string, from: number): number {
  const into = words
  const length = text.length
  let at = from
  let any = 0
  let i = 0
  for (; i + 3 < length; i += 4) {
    const a = text.charCodeAt(i)
    const b = text.charCodeAt(i + 1)
    const c = text.charCodeAt(i + 2)
    const d = text.charCodeAt(i + 3)
    any |= a | b | c | d
    into[at++] = a | (b << 8) | (c << 16) | (d << 24)
  }
  if (i < length) {
    let half = 0
    for (let shift = 0; i < length; i++, shift += 8) {
      const unit = text.charCodeAt(i)
      any |= unit
      half |= unit << shift
    }
    into[at++] = half
  }
  return any > 0xff ? -1 : at
}

function appendWide(text: string, from: number): number {
  let at = from
  for (let i = 0; i < text.length; i += 2) {
    const low = text.charCodeAt(i)
    const high = i + 1 < text.length ? text.charCodeAt(i + 1) : 0
    words[at++] = low | (high << 16)
  }
  return at
}

function alignToEven(at: number): number {
  if ((at & 1) === 0) return at
  words[at] = 0
  return at + 1
}

function reserve(size: number): void {
  if (size <= words.length) return
  const larger = new Int32Array(size * 2)
  larger.set(words)
  words = larger
}

/** SipHash-1-3 over `count` 64-bit words; the last one is what SipHash calls the length block. */
export function sipHash13(key: SipKey, message: Int32Array, count: number): Hash64 {
  let v0h = key.k1 ^ 0x736f6d65
  let v0l = key.k0 ^ 0x70736575
  let v1h = key.k3 ^ 0x646f7261
  let v1l = key.k2 ^ 0x6e646f6d
  let v2h = key.k1 ^ 0x6c796765
  let v2l = key.k0 ^ 0x6e657261
  let v3h = key.k3 ^ 0x74656462
  let v3l = key.k2 ^ 0x79746573

  // One round per word, then three more; a single loop, so that the round is written once.
  for (let i = 0; i < count + 3; i++) {
    const ml = i < count ? (message[2 * i] ?? 0) : 0
    const mh = i < count ? (message[2 * i + 1] ?? 0) : 0
    if (i === count) v2l ^= 0xff
    v3l ^= ml
    v3h ^= mh

    let l = (v0l + v1l) | 0
    v0h = (v0h + v1h + carry(v0l, v1l, l)) | 0
    v0l = l
    l = (v2l + v3l) | 0
    v2h = (v2h + v3h + carry(v2l, v3l, l)) | 0
    v2l = l
    let h = (v1h << 13) | (v1l >>> 19)
    l = (v1l << 13) | (v1h >>> 19)
    v1h = h ^ v0h
    v1l = l ^ v0l
    h = (v3h << 16) | (v3l >>> 16)
    l = (v3l << 16) | (v3h >>> 16)
    v3h = h ^ v2h
    v3l = l ^ v2l
    h = v0h
    v0h = v0l
    v0l = h
    l = (v2l + v1l) | 0
    v2h = (v2h + v1h + carry(v2l, v1l, l)) | 0
    v2l = l
    l = (v0l + v3l) | 0
    v0h = (v0h + v3h + carry(v0l, v3l, l)) | 0
    v0l = l
    h = (v1h << 17) | (v1l >>> 15)
    l = (v1l << 17) | (v1h >>> 15)
    v1h = h ^ v2h
    v1l = l ^ v2l
    h = (v3h << 21) | (v3l >>> 11)
    l = (v3l << 21) | (v3h >>> 11)
    v3h = h ^ v0h
    v3l = l ^ v0l
    h = v2h
    v2h = v2l
    v2l = h

    v0l ^= ml
    v0h ^= mh
  }
  return new Hash(v0h ^ v1h ^ v2h ^ v3h, v0l ^ v1l ^ v2l ^ v3l)
}

/**
 * Returns the carry of a + b = sum in 32 bits, without a branch: three times as fast as a
 * comparison.
 */
function carry(a: number, b: number, sum: number): number {
  return ((a & b) | ((a | b) & ~sum)) >>> 31
}
