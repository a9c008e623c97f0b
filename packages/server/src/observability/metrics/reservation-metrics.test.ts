import { expect, test } from 'vitest'
import { startTestServer } from '../../serve.test-helper.js'

const RULES = [
  {
    id: 'tokens',
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max: 1000, window: '1h' }],
    cost: { attribute: 'tokens' },
  },
]

test('each verb of the decision API counts a reservation once, and what was settled of it', async () => {
  const server = await startTestServer({ rules: RULES })
  const post = async (verb: string, body: object) => {
    const response = await fetch(`${server.api}/v1/${verb}`, {
      method: 'POST',
      body: JSON.stringify(body),
    })
    return (await response.json()) as { readonly reservation: string }
  }
  const reserve = (tokens: number) =>
    post('reserve', { attributes: { user: 'u1', tokens }, idempotencyKey: `k${tokens}` })
  try {
    const { reservation } = await reserve(800)
    await reserve(800)
    await reserve(900)
    await post('extend', { reservation, attributes: { tokens: 500 } })
    const extended = await post('extend', { reservation, attributes: { tokens: 100 } })
    await post('settle', { reservation: extended.reservation, actual: 300 })
    await post('settle', { reservation: extended.reservation, actual: 300 })
    const { reservation: cancelled } = await reserve(500)
    await post('cancel', { reservation: cancelled })
    const text = await (await fetch(`${server.admin}/metrics`)).text()
    expect(text.match(/^sluice_reservation.*$/gm)).toEqual([
      'sluice_reservation_units_total{cost="tokens",fate="charged"} 300',
      'sluice_reservation_units_total{cost="tokens",fate="given_back"} 1100',
      'sluice_reservation_units_total{cost="tokens",fate="owed"} 0',
      'sluice_reservations_total{fate="already_settled"} 1',
      'sluice_reservations_total{fate="cancelled"} 1',
      'sluice_reservations_total{fate="expired"} 0',
      'sluice_reservations_total{fate="extended"} 1',
      'sluice_reservations_total{fate="extension_refused"} 1',
      'sluice_reservations_total{fate="made"} 2',
      'sluice_reservations_total{fate="posture"} 0',
      'sluice_reservations_total{fate="refunded"} 0',
      'sluice_reservations_total{fate="repeated"} 1',
      'sluice_reservations_total{fate="settled"} 1',
    ])
  } finally {
    await server.close()
  }
})
