import { PARTITIONS } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { OwnerTable } from './owner-table.js'

const PARTITION_NUMBERS = Array.from({ length: PARTITIONS }, (_, partition) => partition)
const names = (count: number) => Array.from({ length: count }, (_, n) => `worker-${n}`)

/** The names of owner and deputy of each partition. */
function ranked(members: readonly string[]) {
  const table = new OwnerTable(members)
  return PARTITION_NUMBERS.map((partition) => ({
    owner: table.members[table.ownerOf(partition)],
    deputy: table.members[table.deputyOf(partition)],
  }))
}

describe('the owners of partitions', () => {
  test('do not depend on the order in which members are named', () => {
    expect(ranked(['c', 'a', 'b'])).toEqual(ranked(['a', 'b', 'c']))
  })

  test('have the same view if and only if the members are the same', () => {
    expect(new OwnerTable(['a', 'b']).view).toBe(new OwnerTable(['b', 'a']).view)
    expect(new OwnerTable(['a', 'b']).view).not.toBe(new OwnerTable(['a']).view)
  })

  test('are always members, and the deputy is another one', () => {
    for (const { owner, deputy } of ranked(names(5))) {
      expect(names(5)).toContain(owner)
      expect(names(5)).toContain(deputy)
      expect(deputy).not.toBe(owner)
    }
  })

  test('are nobody without members, and a single member has no deputy', () => {
    expect(ranked([])[0]).toEqual({ owner: undefined, deputy: undefined })
    expect(ranked(['a'])[0]).toEqual({ owner: 'a', deputy: undefined })
  })

  test('stay when a member leaves, except its own, which go to their deputies', () => {
    const before = ranked(names(5))
    const after = ranked(names(5).filter((name) => name !== 'worker-3'))
    for (const [partition, { owner, deputy }] of before.entries()) {
      expect(after[partition]?.owner).toBe(owner === 'worker-3' ? deputy : owner)
    }
  })

  test('stay when a member joins, except those that the new member owns', () => {
    const before = ranked(names(4))
    for (const [partition, { owner }] of ranked(names(5)).entries()) {
      if (owner !== 'worker-4') expect(owner).toBe(before[partition]?.owner)
    }
  })

  test.each([2, 4, 10])('are spread over %i members, each with its part', (count) => {
    const shares = new OwnerTable(names(count)).shares()
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(PARTITIONS)
    for (const share of shares) {
      expect(share).toBeGreaterThan((0.4 * PARTITIONS) / count)
      expect(share).toBeLessThan((2 * PARTITIONS) / count)
    }
  })
})
