import type { RuleView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { matchingCall } from './matching-call.js'

const rule = (match?: unknown): RuleView => ({ id: 'r', version: 1, overrideCount: 0, match })

describe('matchingCall', () => {
  test('attributes that the rule requires are added to those of the caller', () => {
    const match = { method: ['POST', 'PUT'], path: '/v1/login', where: { tenant: ['a', 'b'] } }
    expect(matchingCall(rule(match), { ip: '::1' })).toEqual({
      ip: '::1',
      method: 'POST',
      path: '/v1/login',
      tenant: 'a',
    })
    expect(matchingCall(rule({ method: 'GET' }), {})).toEqual({ method: 'GET' })
  })

  test.each([
    ['/v1/orders/:id', '/v1/orders/1'],
    ['/v1/:shop/orders/*', '/v1/1/orders/1'],
    ['/*', '/1'],
    ['/', '/'],
    ['/a:b/x', '/a:b/x'],
  ])('a path that matches %s is added', (pattern, path) => {
    expect(matchingCall(rule({ path: pattern }), {})).toEqual({ path })
  })

  test('known attributes are kept', () => {
    const match = { path: '/a/*', where: { plan: ['free', 'pro'], user: null } }
    const known = { plan: 'pro', path: '/a/b' }
    expect(matchingCall(rule(match), known)).toEqual(known)
  })

  test('an address of the network is added, and absent attributes are not', () => {
    const where = { ip: ['10.0.0.0/8', '::1'], user: null }
    expect(matchingCall(rule({ where }), {})).toEqual({ ip: '10.0.0.0' })
    expect(matchingCall(rule({ where: { ip: { not: ['10.0.0.0/8'] } } }), {})).toEqual({})
    expect(matchingCall(rule({ where: { ip: '2001:db8::/32' } }), {})).toEqual({ ip: '2001:db8::' })
  })

  test('method and path are derived from a known route', () => {
    const route = 'GET /v1/orders/:id'
    const path = '/v1/orders/1'
    expect(matchingCall(rule(), { route })).toEqual({ route, method: 'GET', path })
  })

  test('a rule that matches every call, or is malformed, adds nothing', () => {
    for (const match of [undefined, null, [], 'x', { where: [] }, { path: null }]) {
      expect(matchingCall(rule(match), { user: 'u' })).toEqual({ user: 'u' })
    }
    expect(matchingCall(rule({ where: JSON.parse('{"__proto__":"x"}') as object }), {})).toEqual(
      Object.fromEntries([['__proto__', 'x']]),
    )
  })
})
