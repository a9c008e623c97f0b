import { describe, expect, test } from 'vitest'
import { decodeAnnouncement, encodeAnnouncement, KEYS_MAX } from './announcement.js'

const sender = '00ff10a4b5c6d7e8'
const keysOf = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ hi: ~i, lo: i - 2 ** 31, partition: 0 }))

describe('an announcement', () => {
  test.each([
    { kind: 'restore', sender } as const,
    ...[0, 1, KEYS_MAX].map(
      (count) => ({ kind: 'returned', sender, keys: keysOf(count) }) as const,
    ),
  ])('decodes to what was encoded ($kind)', (announcement) => {
    const bytes = encodeAnnouncement(announcement)
    expect(decodeAnnouncement(bytes)).toEqual(announcement)
    expect(bytes.length).toBeLessThanOrEqual(4200)
  })

  test('contains only the hash of a counter, and no partition', () => {
    const key = { hi: 1, lo: 2, partition: 77 }
    const bytes = encodeAnnouncement({ kind: 'returned', sender, keys: [key] })
    expect(bytes.toString('hex')).toBe(`01${sender}0000000100000002`)
  })

  const whole = encodeAnnouncement({ kind: 'returned', sender, keys: keysOf(2) })
  test.each([
    ['nothing', Buffer.alloc(0)],
    ['too little', whole.subarray(0, 8)],
    ['half a key', whole.subarray(0, whole.length - 1)],
    ['a kind of another version', Buffer.concat([Buffer.of(9), whole.subarray(1)])],
    ['more than may be sent', Buffer.concat([whole, Buffer.alloc(8 * KEYS_MAX)])],
    ['a request with something behind it', Buffer.concat([Buffer.of(2), whole.subarray(1)])],
    ['text', Buffer.from('a message of somebody else')],
  ])('does not decode if it is %s', (_, bytes) => {
    expect(decodeAnnouncement(bytes)).toBeUndefined()
  })
})
