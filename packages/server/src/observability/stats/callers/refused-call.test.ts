import { expect, test } from 'vitest'
import { callWith } from '../../../lib/normalized-call.test-helper.js'
import { REFUSED_CALL_LENGTH_MAX, refusedCallText } from './refused-call.js'

const call = (attributes: Record<string, string>, route?: string) =>
  refusedCallText(callWith(attributes, { route }))

test('a refused call is its method and its canonical path, without the query', () => {
  expect(call({ method: 'get', path: '/v1/%6frders/7?key=secret#x' })).toBe('GET /v1/orders/7')
  expect(call({ path: '/v1/orders' })).toBe('/v1/orders')
  expect(call({ method: 'GET' })).toBe('GET')
  expect(call({ user: 'u1' })).toBeUndefined()
})

test('a call with a matched route is shown by its pattern, which contains no ids', () => {
  const attributes = { method: 'HEAD', path: '/v1/orders/7' }
  expect(call(attributes, 'GET /v1/orders/:id')).toBe('HEAD /v1/orders/:id')
  expect(call(attributes, '/v1/*')).toBe('HEAD /v1/*')
  expect(call({ method: 'POST', route: 'checkout now' })).toBe('POST checkout now')
})

test('a path that cannot be read is cut before its query, and is one printable line', () => {
  expect(call({ method: 'GET', path: '/a;b\n/../?token=x' })).toBe('GET /a;b\\u000a/../')
})

test('the longest method and path take no more than the bound', () => {
  const long = call({ method: 'M'.repeat(9000), path: `/${'p'.repeat(9000)}` })
  expect(long?.length).toBe(REFUSED_CALL_LENGTH_MAX)
})
