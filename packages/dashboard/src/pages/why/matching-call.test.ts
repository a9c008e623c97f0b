import type { RuleView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { matchingCall } from './matching-call.js'

const rule = (match?: unknown): RuleView => ({ id: 'r', version: 1, overrideCount: 0, match })

describe('a call that meets a rule', () => {
  test('has what the rule wants beside what is known of the caller', () => {
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
  ])('has a path below %s', (pattern, path) => {
    expect(matchingCall(rule({ path: pattern }), {})).toEqual({ path })
  })

  test('keeps what is known: the plan, and what the rule counts by', () => {
    const match = { path: '/a/*', where: { plan: ['free', 'pro'], user: null } }
    const known = { plan: 'pro', path: '/a/b' }
    expect(matchingCall(rule(match), known)).toEqual(known)
  })

  test('has an address of a network, and lacks what must be absent', () => {
    const where = { ip: ['10.0.0.0/8', '::1'], user: null }
    expect(matchingCall(rule({ where }), {})).toEqual({ ip: '10.0.0.0' })
    expect(matchingCall(rule({ where: { ip: { not: ['10.0.0.0/8'] } } }), {})).toEqual({})
    expect(matchingCall(rule({ where: { ip: '2001:db8::/32' } }), {})).toEqual({ ip: '2001:db8::' })
  })

  test('has the path of a route that is counted by', () => {
    const route = 'GET /v1/orders/:id'
    const path = '/v1/orders/1'
    expect(matchingCall(rule(), { route })).toEqual({ route, method: 'GET', path })
  })

  test('of one that takes any call, or is no good, is what is known', () => {
    for (const match of [undefined, null, [], 'x', { where: [] }, { path: null }]) {
      expect(matchingCall(rule(match), { user: 'u' })).toEqual({ user: 'u' })
    }
    expect(matchingCall(rule({ where: JSON.parse('{"__proto__":"x"}') as object }), {})).toEqual(
      Object.fromEntries([['__proto__', 'x']]),
    )
  })
})
