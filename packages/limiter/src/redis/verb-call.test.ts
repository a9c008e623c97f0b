import { describe, expect, test } from 'vitest'
import { Part } from './part.js'
import { VerbCall } from './verb-call.js'

const KEY = { hi: 1, lo: 2, partition: 0 }

function chargeOf(settled: (error: unknown) => void) {
  const call = new VerbCall('charge', 1000, () => settled(undefined), settled)
  const part = new Part(call, { verb: 'reset', key: KEY }, 0, 1)
  call.part = part
  return { call, part }
}

describe('a give, charge or reset', () => {
  test('that was not answered in time after it left may have been done, and says so', () => {
    const told: unknown[] = []
    const { call, part } = chargeOf((error) => told.push(error))
    part.stage = 'sent'
    call.expire()
    expect(told).toMatchObject([{ code: 'STORE_FAILED', silence: 'unknown' }])
  })

  test('that never left was not done, and may be told again', () => {
    const told: unknown[] = []
    const { call } = chargeOf((error) => told.push(error))
    call.expire()
    expect(told).toMatchObject([{ code: 'STORE_FAILED', silence: 'not-run' }])
  })

  test('whose connection ended says what is known of it', () => {
    const told: unknown[] = []
    const { part } = chargeOf((error) => told.push(error))
    part.stage = 'sent'
    part.settle('unknown')
    expect(told).toMatchObject([{ silence: 'unknown' }])
  })
})
