import { describe, expect, test } from 'vitest'
import { PartitionOp } from './partition-op.js'
import { CommandRequest } from './command-request.js'

const KEY = { hi: 1, lo: 2, partition: 0 }

function chargeOf(settled: (error: unknown) => void) {
  const call = new CommandRequest('charge', 1000, () => settled(undefined), settled)
  const op = new PartitionOp(call, { verb: 'reset', key: KEY }, 0, 1)
  call.op = op
  return { call, op }
}

describe('a give, charge or reset', () => {
  test('rejects with an unknown outcome if it was sent and not answered in time', () => {
    const errors: unknown[] = []
    const { call, op } = chargeOf((error) => errors.push(error))
    op.stage = 'sent'
    call.expire()
    expect(errors).toMatchObject([{ code: 'STORE_FAILED', silence: 'unknown' }])
  })

  test('rejects as not done, and may be retried, if it was never sent', () => {
    const errors: unknown[] = []
    const { call } = chargeOf((error) => errors.push(error))
    call.expire()
    expect(errors).toMatchObject([{ code: 'STORE_FAILED', silence: 'not-run' }])
  })

  test('rejects with what is known if its connection ended', () => {
    const errors: unknown[] = []
    const { op } = chargeOf((error) => errors.push(error))
    op.stage = 'sent'
    op.settle('unknown')
    expect(errors).toMatchObject([{ silence: 'unknown' }])
  })
})
