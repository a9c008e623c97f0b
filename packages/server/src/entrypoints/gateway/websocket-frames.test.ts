import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { closeFrame, FrameScanner } from './websocket-frames.js'

/** A frame as a client sends it. */
function frame(opcode: number, fin: boolean, payload: Buffer, masked: boolean): Buffer {
  const { length } = payload
  const mask = masked ? 0x80 : 0
  const first = (fin ? 0x80 : 0) | opcode
  const size =
    length < 126
      ? Buffer.from([first, mask | length])
      : length < 65536
        ? Buffer.from([first, mask | 126, length >> 8, length & 255])
        : Buffer.concat([Buffer.from([first, mask | 127, 0, 0, 0, 0]), uint32(length)])
  return Buffer.concat([size, masked ? Buffer.from([1, 2, 3, 4]) : Buffer.alloc(0), payload])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function messagesIn(chunks: readonly Buffer[]): number {
  const scanner = new FrameScanner()
  let messages = 0
  for (const chunk of chunks) {
    let at = 0
    for (let found = scanner.next(chunk, at); found; found = scanner.next(chunk, at)) {
      at = found.at
      if (found.frame.isMessage) messages++
    }
  }
  expect(scanner.isBetweenFrames).toBe(true)
  return messages
}

const anyFrame = fc.record({
  opcode: fc.constantFrom(0, 1, 2, 8, 9, 10),
  fin: fc.boolean(),
  length: fc.oneof(fc.nat(200), fc.constantFrom(125, 126, 127, 65535, 65536, 70000)),
  masked: fc.boolean(),
})

describe('WebSocket frames', () => {
  test('are found however the bytes are cut, and messages are counted at their first frame', () => {
    fc.assert(
      fc.property(fc.array(anyFrame, { maxLength: 8 }), fc.array(fc.nat(400)), (frames, cuts) => {
        const bytes = Buffer.concat(
          frames.map(({ opcode, fin, length, masked }) =>
            frame(opcode, fin, Buffer.alloc(length, 0x81), masked),
          ),
        )
        const chunks: Buffer[] = []
        let at = 0
        for (const cut of cuts) {
          chunks.push(bytes.subarray(at, at + cut))
          at += cut
        }
        chunks.push(bytes.subarray(Math.min(at, bytes.length)))
        const wanted = frames.filter(({ opcode }) => opcode === 1 || opcode === 2).length
        expect(messagesIn(chunks)).toBe(wanted)
      }),
      { numRuns: 300 },
    )
  })

  test('are found also if their header is cut', () => {
    const scanner = new FrameScanner()
    const bytes = frame(1, true, Buffer.alloc(300), true)
    expect(scanner.next(bytes.subarray(0, 3), 0)).toBeUndefined()
    expect(scanner.isBetweenFrames).toBe(false)
    expect(scanner.next(bytes.subarray(3), 0)).toEqual({
      frame: { start: -3, isMessage: true },
      at: 5,
    })
    expect(scanner.endOfFrame(Buffer.concat([bytes.subarray(8), bytes]))).toBe(300)
  })

  test('of an excessive length are skipped, not buffered', () => {
    const scanner = new FrameScanner()
    const head = Buffer.from([0x82, 0x7f, 255, 255, 255, 255, 255, 255, 255, 255])
    expect(scanner.next(head, 0)?.frame.isMessage).toBe(true)
    expect(scanner.next(Buffer.alloc(1000, 0x81), 0)).toBeUndefined()
  })
})

describe('a close frame', () => {
  /** As RFC 6455, section 5.2 specifies. */
  const read = (bytes: Buffer) => {
    const isMasked = ((bytes[1] ?? 0) & 0x80) !== 0
    const length = (bytes[1] ?? 0) & 0x7f
    const mask = isMasked ? bytes.subarray(2, 6) : Buffer.alloc(4)
    const payload = bytes.subarray(isMasked ? 6 : 2).map((byte, i) => byte ^ (mask[i % 4] ?? 0))
    expect([bytes[0], payload.length]).toEqual([0x88, length])
    const text = Buffer.from(payload)
    return { isMasked, code: text.readUInt16BE(0), reason: text.subarray(2).toString() }
  }

  test('reports its code and reason to a client', () => {
    const reason = 'Retry after 3 seconds'
    expect(read(closeFrame(1008, reason))).toEqual({ isMasked: false, code: 1008, reason })
  })

  test('is masked if it is sent to a server', () => {
    const masked = closeFrame(1001, 'bye', Buffer.from([9, 8, 7, 6]))
    expect(read(masked)).toEqual({ isMasked: true, code: 1001, reason: 'bye' })
  })

  test('truncates a reason that is too long', () => {
    expect(closeFrame(1008, 'x'.repeat(500)).length).toBe(127)
  })
})
