import { expect, test } from 'vitest'
import { groupByDeadline } from './deadline-groups.js'
import { PartitionOp } from '../request/partition-op.js'

const NOW_MS = 1000

/** Parts with so many milliseconds left. */
function parts(...leftMs: readonly number[]): readonly PartitionOp[] {
  return leftMs.map((left) => {
    const deadlineAtMs = NOW_MS + left
    const owner = {
      deadlineAtMs,
      isAnswered: false,
      settle: () => {},
      opsPerCounter: (one: PartitionOp) => [one],
    }
    return new PartitionOp(owner, { verb: 'take', groups: [], states: false }, 0, 1)
  })
}

const cut = (...leftMs: readonly number[]) =>
  groupByDeadline(parts(...leftMs), NOW_MS).map((group) =>
    group.map(({ owner }) => owner.deadlineAtMs - NOW_MS),
  )

test('calls with about as much time left share a script', () => {
  expect(cut(20, 19, 5, 12)).toEqual([[20, 19, 5, 12]])
})

test('a call that may wait for long is not with one that may not', () => {
  expect(cut(10_000, 20, 1, 18, 9000)).toEqual([[1], [18, 20], [9000, 10_000]])
})

test('one that is out of time is with its like only', () => {
  expect(cut(20, 0, -3, 19)).toEqual([
    [-3, 0],
    [19, 20],
  ])
})

test('nothing stays nothing', () => {
  expect(groupByDeadline([], NOW_MS).flat()).toEqual([])
})
