import { expect, test } from 'vitest'
import { shareableAttributes } from './shareable-attributes.js'

const CALL = { user: 'u1', plan: 'free', ip: '::1', method: 'GET', path: '/v1/orders' }

test('user, plan, ip, method and path are shareable', () => {
  expect(shareableAttributes(CALL, {})).toEqual({ attributes: CALL, withheld: [] })
})

test('a key and attributes that may come from a header are withheld', () => {
  const pasted = { ...CALL, api_key: 'sk_live_0123456789abcdef', device: 'd-1' }
  expect(shareableAttributes(pasted, {})).toEqual({
    attributes: CALL,
    withheld: ['api_key', 'device'],
  })
})

test('a masked key and attributes of the address are shareable', () => {
  const shown = { api_key: '1f2e3d4c5b6a7988..wxyz', tenant: 'acme' }
  expect(shareableAttributes(shown, { tenant: 'acme' })).toEqual({
    attributes: shown,
    withheld: [],
  })
  expect(shareableAttributes(shown, { tenant: 'other' }).withheld).toEqual(['tenant'])
  expect(shareableAttributes({ constructor: 'x' }, {}).withheld).toEqual(['constructor'])
})
