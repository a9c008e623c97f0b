import { expect, test } from 'vitest'
import { shareableAttributes } from './shareable-attributes.js'

const CALL = { user: 'u1', plan: 'free', ip: '::1', method: 'GET', path: '/v1/orders' }

test('who calls and what for may stand in an address', () => {
  expect(shareableAttributes(CALL, {})).toEqual({ attributes: CALL, withheld: [] })
})

test('a key that was pasted may not, nor what may have come from a header', () => {
  const pasted = { ...CALL, api_key: 'sk_live_0123456789abcdef', device: 'd-1' }
  expect(shareableAttributes(pasted, {})).toEqual({
    attributes: CALL,
    withheld: ['api_key', 'device'],
  })
})

test('what stands for a key may, and what is in the address anyway', () => {
  const shown = { api_key: '1f2e3d4c5b6a7988..wxyz', tenant: 'acme' }
  expect(shareableAttributes(shown, { tenant: 'acme' })).toEqual({
    attributes: shown,
    withheld: [],
  })
  expect(shareableAttributes(shown, { tenant: 'other' }).withheld).toEqual(['tenant'])
  expect(shareableAttributes({ constructor: 'x' }, {}).withheld).toEqual(['constructor'])
})
