/**
 * The messages that nodes announce to each other, as bytes: a kind, the sender, and for `returned`
 * the hashes of counters. They contain no secret, and a forged one can only make a node forget a
 * remembered refusal or write its secret again.
 */
import type { CounterKey } from '@sluice/core'

/** `returned`: units were given back to these counters. `restore`: the secret is missing. */
export type Announcement =
  | { readonly kind: 'returned'; readonly sender: string; readonly keys: readonly CounterKey[] }
  | { readonly kind: 'restore'; readonly sender: string }

const RETURNED = 1
const RESTORE = 2
const SENDER_BYTES = 8
const HEAD_BYTES = 1 + SENDER_BYTES
const KEY_BYTES = 8
/** Keeps a message near 4 kB, because Redis writes it to every node. */
export const KEYS_MAX = 512

/** `sender` is 16 hex digits. At most `KEYS_MAX` keys. */
export function encodeAnnouncement(announcement: Announcement): Buffer {
  const keys = announcement.kind === 'returned' ? announcement.keys : []
  const bytes = Buffer.alloc(HEAD_BYTES + keys.length * KEY_BYTES)
  bytes.writeUInt8(announcement.kind === 'returned' ? RETURNED : RESTORE, 0)
  bytes.write(announcement.sender, 1, SENDER_BYTES, 'hex')
  for (const [i, { hi, lo }] of keys.entries()) {
    bytes.writeInt32BE(hi | 0, HEAD_BYTES + i * KEY_BYTES)
    bytes.writeInt32BE(lo | 0, HEAD_BYTES + i * KEY_BYTES + KEY_BYTES / 2)
  }
  return bytes
}

/** Undefined for anything else, because a later version may announce more. */
export function decodeAnnouncement(bytes: Buffer): Announcement | undefined {
  if (bytes.length < HEAD_BYTES) return undefined
  const kind = bytes.readUInt8(0)
  const sender = bytes.toString('hex', 1, HEAD_BYTES)
  const rest = bytes.length - HEAD_BYTES
  if (kind === RESTORE) return rest === 0 ? { kind: 'restore', sender } : undefined
  const count = rest / KEY_BYTES
  if (kind !== RETURNED || !Number.isInteger(count) || count > KEYS_MAX) return undefined
  const keys = Array.from({ length: count }, (_, i) => {
    const at = HEAD_BYTES + i * KEY_BYTES
    const lo = bytes.readInt32BE(at + KEY_BYTES / 2)
    // The deny cache does not use the partition.
    return { hi: bytes.readInt32BE(at), lo, partition: 0 }
  })
  return { kind: 'returned', sender, keys }
}
