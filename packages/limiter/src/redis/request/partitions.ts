/**
 * The partitions of a prefix, and the slots of a Redis Cluster they lie in. A partition is a hash
 * tag, so all of its keys share one slot. Without a Cluster a tag is just text in a key.
 */

/** The number of slots of every Redis Cluster. */
export const SLOT_COUNT = 16_384
const POLYNOMIAL = 0x1021

/**
 * One tag per partition. The list never changes: another list would mean other keys, and every
 * counter would start again. Tag i is the first text of digits and lower-case letters, the shortest
 * first, whose slot is the middle of the i-th of 128 equal ranges. So any division of the slots
 * into consecutive equal shards gives each shard the same number of partitions, plus or minus one.
 */
export const PARTITION_TAGS: readonly string[] = Object.freeze(
  `5n3 d5m 7me 3xc a2j 0i4 cu4 2jb 5js 92e bcu fvs 4xr 0mt cqt x3 dhn 530 3ah 70f 047 4e9 ex 6fo
9of 57p fox j7n 00w 4ay a8 kag h8q 1j7 78o 3ia 4m0 0x6 6nf mq hx9 1nw brw fgq 4ip 81f kin i1 174
her 34b 7el ekm 403 0r 63e 13t 5bz n3j jbd 8le 44s 42 k4m 7lu 3ys hlk 975 k94 9k a3z ebt 7h5 f3k
5kc 93u 6z4 2o2 4yb 0ld nc0 71v 9j6 h1h dh kd7 8x7 any 3d8 756 1gn 5rh 221 cio 01g aj9 su7 3hq h9a
daw 6ov la afp 846 7y7 3l1 5za 1og 6k6 g0h ab0 09n 35r jg4 l5l hdb 1b 62u 8i5 i2k 312 bjl 12d 5cj
gmk 665 0dm 45c`.split(/\s/),
)

/** For each partition, the slot of its keys. */
export const PARTITION_SLOTS: readonly number[] = Object.freeze(PARTITION_TAGS.map(slotOf))

/**
 * The slot of a key. Only the text between the first `{` and the `}` after it is hashed, unless
 * there is none or it is empty.
 */
export function slotOf(key: string): number {
  return crc16(Buffer.from(taggedPart(key))) % SLOT_COUNT
}

function taggedPart(key: string): string {
  const from = key.indexOf('{')
  if (from === -1) return key
  const to = key.indexOf('}', from + 1)
  return to === -1 || to === from + 1 ? key : key.slice(from + 1, to)
}

/** CRC-16/XMODEM, bit by bit: it runs once per partition, and for keys that an operator names. */
function crc16(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) {
      crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ POLYNOMIAL
    }
    crc &= 0xffff
  }
  return crc
}
