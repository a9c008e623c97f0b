import { randomBytes } from 'node:crypto'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { canDecode, ContentDecoder, WAITING_BYTES_MAX } from './content-decoder.js'

const TEXT = 'Sluices stehen offen. '.repeat(2000)

async function decode(encoding: string, pieces: readonly Uint8Array[], bytesMax?: number) {
  const decoded: Buffer[] = []
  const decoder = new ContentDecoder(encoding, {
    onBytes: (bytes) => decoded.push(Buffer.from(bytes)),
    bytesMax,
  })
  for (const piece of pieces) decoder.push(piece)
  await decoder.end()
  return { text: Buffer.concat(decoded).toString(), isBroken: decoder.isBroken }
}

describe('the content decoder', () => {
  test.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ] as const)('decompresses %s that arrives byte by byte', async (encoding, compress) => {
    const pieces = Array.from(compress(TEXT), (byte) => Uint8Array.of(byte))
    expect(await decode(encoding, pieces)).toEqual({ text: TEXT, isBroken: false })
  })

  test.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
  ] as const)('decompresses %s that broke off as far as it came', async (encoding, compress) => {
    const random = randomBytes(100_000).toString('hex')
    const compressed = compress(random)
    const cut = compressed.subarray(0, compressed.length / 2)
    const { text, isBroken } = await decode(encoding, [cut])
    expect(isBroken).toBe(false)
    expect(text.length).toBeGreaterThan(0)
    expect(random.startsWith(text)).toBe(true)
  })

  test('knows the encodings of this version of Node, and no others', () => {
    expect(['gzip', 'br', 'deflate'].every(canDecode)).toBe(true)
    expect(['compress', 'gzip, br', '', 'toString'].some(canDecode)).toBe(false)
  })

  test('gives up on bytes that are not compressed so', async () => {
    const { isBroken } = await decode('gzip', [Buffer.from('{"usage":{}}')])
    expect(isBroken).toBe(true)
  })

  test('gives up on an answer that becomes larger than the bound', async () => {
    const { text, isBroken } = await decode('gzip', [gzipSync(Buffer.alloc(1 << 20))], 100_000)
    expect(isBroken).toBe(true)
    expect(text.length).toBeLessThanOrEqual(100_000)
  })

  test('gives up when more waits to be decompressed than the bound', () => {
    const decoder = new ContentDecoder('gzip', { onBytes: () => {} })
    const piece = randomBytes(1 << 20)
    for (let bytes = 0; bytes <= WAITING_BYTES_MAX + piece.length; bytes += piece.length) {
      decoder.push(piece)
    }
    expect(decoder.isBroken).toBe(true)
  })
})
