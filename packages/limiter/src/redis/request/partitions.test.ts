import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { PARTITION_SLOTS, PARTITION_TAGS, SLOT_COUNT, slotOf } from './partitions.js'

describe('the slot of a key', () => {
  test.each([
    ['123456789', 12_739],
    ['', 0],
    ['foo', 12_182],
    ['foo{bar}{zap}', slotOf('bar')],
    ['foo{{bar}}zap', slotOf('{bar')],
    ['{user}.following', slotOf('user')],
    ['a}b{user}', slotOf('user')],
  ])('for %s equals %i', (key, slot) => {
    expect(slotOf(key)).toBe(slot)
  })

  test.each(['foo{}{bar}', 'foo{bar', 'foo}bar', '{}', '}{'])(
    'the whole of %s is hashed, because it has no tag',
    (key) => {
      // A letter in front changes the slot of a key without a tag, and of no other.
      expect(slotOf(`x${key}`)).not.toBe(slotOf(key))
    },
  )

  test('depends on bytes, not on characters', () => {
    expect(slotOf('é')).toBe(slotOf(Buffer.from([0xc3, 0xa9]).toString('utf8')))
    expect(slotOf('é')).not.toBe(slotOf('e'))
  })
})

describe('the partitions', () => {
  test('never change', () => {
    expect(PARTITION_TAGS).toHaveLength(128)
    expect(new Set(PARTITION_TAGS).size).toBe(128)
    const sum = createHash('sha256').update(PARTITION_TAGS.join(' ')).digest('hex')
    expect(sum).toBe('c8af61343a2e9ab8508f8b6a886d1eb154ffe5f1ba63c9e7d04989dc4991a002')
  })

  test('have tags that a search for the shortest finds again', () => {
    expect(searchTags()).toEqual(PARTITION_TAGS)
  })

  test('lie in the middle of 128 equal ranges of slots', () => {
    expect(PARTITION_SLOTS).toEqual(PARTITION_TAGS.map((_, index) => index * 128 + 64))
    expect(slotOf(`prefix:{${PARTITION_TAGS[5]}}:anything`)).toBe(PARTITION_SLOTS[5])
  })

  test.each([1, 2, 3, 4, 5, 6, 12, 16, 24, 64])('spread evenly over %i shards', (shards) => {
    const counts = Array.from({ length: shards }, () => 0)
    for (const slot of PARTITION_SLOTS) {
      // The division of redis-cli --cluster create.
      const shard = ends(shards).findIndex((end) => slot <= end)
      counts[shard] = (counts[shard] ?? 0) + 1
    }
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(Math.floor(128 / shards))
    expect(Math.max(...counts)).toBeLessThanOrEqual(Math.ceil(128 / shards))
  })
})

/** The last slot of each shard. */
function ends(shards: number): readonly number[] {
  const each = SLOT_COUNT / shards
  return Array.from({ length: shards }, (_, at) =>
    at === shards - 1 ? SLOT_COUNT - 1 : Math.round(each * (at + 1) - 1),
  )
}

function searchTags(): readonly string[] {
  const letters = Array.from('0123456789abcdefghijklmnopqrstuvwxyz')
  const found = new Map<number, string>()
  let texts = ['']
  while (found.size < 128) {
    texts = texts.flatMap((text) => letters.map((letter) => text + letter))
    for (const text of texts) {
      const slot = slotOf(text)
      if (slot % 128 === 64 && !found.has(slot >> 7)) found.set(slot >> 7, text)
    }
  }
  return Array.from({ length: 128 }, (_, index) => found.get(index) ?? '')
}
