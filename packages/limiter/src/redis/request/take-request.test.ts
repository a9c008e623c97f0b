import { defineLimit, type Outcome, type Take } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import type { Answer, Groups } from '../../store.js'
import type { PartitionOp } from './partition-op.js'
import { TakeOp, TakeRequest } from './take-request.js'

const ten = defineLimit({ algorithm: 'fixed-window', max: 10, windowMs: 60_000 })
function take(n: number, partition: number): Take {
  return { key: { hi: n, lo: n, partition }, limit: ten, amount: 2 }
}

const granted: Outcome = {
  granted: 2,
  remaining: 5,
  resetAfterMs: 1000,
  retryAfterMs: 0,
  delayMs: 0,
  at: 77,
}
const refused: Outcome = { ...granted, granted: 0, remaining: 1, retryAfterMs: 1000 }

function make(groups: Groups<Take>) {
  const answered: { answers?: Groups<Answer>; late?: Groups<Answer> } = {}
  const call = new TakeRequest({
    takeOp: new TakeOp('take', groups, false),
    deadlineAtMs: 20,
    onLate: (late) => {
      answered.late = late
    },
    resolve: (answers) => {
      answered.answers = answers
    },
  })
  return { call, answered }
}

const opsOf = (call: TakeRequest, isSingle: (partition: number) => boolean = () => false) =>
  call.asPartitionOps(isSingle)
const takesOf = (op: PartitionOp | undefined) => {
  if (op !== undefined) op.stage = 'sent'
  return op
}

describe('a call with one operation', () => {
  test('resolves to the answer of the operation', () => {
    const { call, answered } = make([[take(1, 1)]])
    takesOf(call.asOneOp(1))?.settle([[granted]])
    expect(answered).toEqual({ answers: [[granted]] })
  })

  test('resolves to not-run, and nothing later, if it was never sent', () => {
    const { call, answered } = make([[take(1, 1)], [take(2, 1)]])
    call.asOneOp(1)
    call.expire()
    expect(answered).toEqual({ answers: [['not-run'], ['not-run']] })
  })

  test('resolves to unknown if it was sent, and its late answer is reported once', () => {
    const { call, answered } = make([[take(1, 1)]])
    const op = takesOf(call.asOneOp(1))
    call.expire()
    expect(answered.answers).toEqual([['unknown']])
    op?.settle([[granted]])
    op?.settle('not-run')
    expect(answered.late).toEqual([[granted]])
  })
})

describe('a call in several partitions', () => {
  test('splits by partition and keeps its groups', () => {
    const { call } = make([[take(1, 1), take(2, 2), take(3, 1)], [take(4, 2)]])
    expect(opsOf(call).map(({ partition, weight, places }) => [partition, weight, places])).toEqual(
      [
        [1, 2, [[0, 2], []]],
        [2, 2, [[1], [0]]],
      ],
    )
  })

  test('resolves in the order of its takes if all operations pass', () => {
    const { call, answered } = make([[take(1, 1), take(2, 2), take(3, 1)]])
    const [one, two] = opsOf(call)
    two?.settle([[{ ...granted, remaining: 2 }]])
    one?.settle([
      [
        { ...granted, remaining: 1 },
        { ...granted, remaining: 3 },
      ],
    ])
    const remaining = answered.answers?.[0]?.map((answer) => (answer as Outcome).remaining)
    expect(remaining).toEqual([1, 2, 3])
  })

  test('resolves to what is known if an operation is silent, and reports the rest later', () => {
    const { call, answered } = make([[take(1, 1), take(2, 2)]])
    const [one, two] = opsOf(call)
    one?.settle([[granted]])
    takesOf(two)
    call.expire()
    expect(answered.answers).toEqual([[granted, 'unknown']])
    two?.settle([[granted]])
    expect(answered.late).toEqual([[granted, granted]])
  })
})

describe('a call whose slot is migrating', () => {
  test('splits into one operation per counter', () => {
    const { call, answered } = make([[take(1, 1), take(2, 1)], [take(3, 1)]])
    const whole = call.asOneOp(1)
    const singles = call.opsPerCounter(whole)
    expect(singles.map(({ places }) => places)).toEqual([
      [[0], []],
      [[1], []],
      [[], [0]],
    ])
    singles[0]?.settle([[granted], []])
    singles[1]?.settle([[refused], []])
    singles[2]?.settle([[], [granted]])
    expect(answered.answers?.[0]?.[1]).toEqual(refused)
  })

  test('splits one of its operations the same way', () => {
    const { call, answered } = make([[take(1, 1), take(2, 2), take(3, 1)]])
    const [one, two] = opsOf(call)
    const singles = one === undefined ? [] : call.opsPerCounter(one)
    expect(singles.map(({ places }) => places)).toEqual([[[0]], [[2]]])
    singles[1]?.settle([[{ ...granted, remaining: 3 }]])
    two?.settle([[{ ...granted, remaining: 2 }]])
    expect(answered.answers).toBeUndefined()
    singles[0]?.settle([[{ ...granted, remaining: 1 }]])
    const remaining = answered.answers?.[0]?.map((answer) => (answer as Outcome).remaining)
    expect(remaining).toEqual([1, 2, 3])
  })

  test('stays one operation if it has one counter', () => {
    const { call } = make([[take(1, 1)]])
    const whole = call.asOneOp(1)
    expect(call.opsPerCounter(whole)).toEqual([whole])
  })

  test('splits by counter from the start if the slot is known to be migrating', () => {
    const { call } = make([[take(1, 1), take(2, 1), take(3, 2), take(4, 2)]])
    expect(opsOf(call, (partition) => partition === 1).map(({ weight }) => weight)).toEqual([
      1, 1, 2,
    ])
  })
})
