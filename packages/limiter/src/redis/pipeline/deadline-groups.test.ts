import { expect, test } from 'vitest'
import { groupByDeadline } from './deadline-groups.js'
import { PartitionOp } from '../request/partition-op.js'

const NOW_MS = 1000

/** Operations with this many milliseconds left. */
function opsLeft(...leftMs: readonly number[]): readonly PartitionOp[] {
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
  groupByDeadline(opsLeft(...leftMs), NOW_MS).map((group) =>
    group.map(({ owner }) => owner.deadlineAtMs - NOW_MS),
  )

test('calls with similar deadlines share a script', () => {
  expect(cut(20, 19, 5, 12)).toEqual([[20, 19, 5, 12]])
})

test('a call with a late deadline does not share a script with an early one', () => {
  expect(cut(10_000, 20, 1, 18, 9000)).toEqual([[1], [18, 20], [9000, 10_000]])
})

test('calls that are out of time share a script only with each other', () => {
  expect(cut(20, 0, -3, 19)).toEqual([
    [-3, 0],
    [19, 20],
  ])
})

test('no operations make no groups', () => {
  expect(groupByDeadline([], NOW_MS).flat()).toEqual([])
})
