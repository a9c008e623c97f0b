import fc from 'fast-check'
import { expect, test } from 'vitest'
import { callWith } from '../../../lib/normalized-call.test-helper.js'
import { BY_MAX, joinLabel, makeLabel, LABEL_LENGTH_MAX, parseLabel } from './caller-label.js'

test('a label has the attributes that the rule counts by, and the plan', () => {
  const name = makeLabel(
    ['user', 'ip'],
    callWith({ user: 'ann', ip: '203.0.113.7', plan: 'free', path: '/' }),
  )
  expect(parseLabel(['user', 'ip'], name)).toEqual({
    caller: { user: 'ann', ip: '203.0.113.7' },
    plan: 'free',
  })
})

test('absent attributes are left out', () => {
  expect(parseLabel(['user', 'ip'], makeLabel(['user', 'ip'], callWith({ user: 7 })))).toEqual({
    caller: { user: '7' },
    plan: null,
  })
  expect(parseLabel(['user'], undefined)).toEqual({ caller: {}, plan: null })
  expect(parseLabel([], makeLabel([], callWith({ plan: 'free' })))).toEqual({
    caller: {},
    plan: 'free',
  })
})

test('a plan that is not text or a number is left out', () => {
  const attributes = { user: 'ann', plan: {} } as unknown as Record<string, string>
  expect(parseLabel(['user'], makeLabel(['user'], callWith(attributes))).plan).toBeNull()
})

test('an attribute may have any name', () => {
  const by = ['__proto__', 'constructor']
  expect(Object.entries(parseLabel(by, joinLabel('', ['a', 'b'])).caller)).toEqual([
    ['__proto__', 'a'],
    ['constructor', 'b'],
  ])
})

test('a label is bounded, and parses back to the values it was made of', () => {
  const values = fc.array(fc.string({ unit: 'binary', maxLength: 120 }), { maxLength: BY_MAX })
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 120 }), values, (plan, texts) => {
      const by = texts.map((_, place) => `a${place}`)
      const name = joinLabel(plan, texts)
      expect(name.length).toBeLessThanOrEqual(LABEL_LENGTH_MAX)
      const read = parseLabel(by, name)
      expect(read.plan === null).toBe(plan === '')
      for (const [place, text] of texts.entries()) {
        const shown = read.caller[`a${place}`] ?? ''
        expect(shown).not.toContain('\n')
        if (/^[a-z]{0,10}$/.test(text)) expect(shown).toBe(text)
      }
    }),
    { numRuns: 40 },
  )
})

test('a whole address, key or id fits into the label of a rule with one or two attributes', () => {
  const address = '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'
  const id = '3f0c9f3a-7c43-4be5-9d0e-5a4a3c1e9b11'
  const { caller } = parseLabel(
    ['ip', 'user'],
    makeLabel(['ip', 'user'], callWith({ ip: address, user: id })),
  )
  expect(caller).toEqual({ ip: address, user: id })
})

test('a label has the matched route, or the network of an address', () => {
  const by = ['route', 'ip']
  const call = callWith(
    { path: '/v1/orders/7' },
    { route: 'GET /v1/orders/:id', ip: '2001:db8::/64' },
  )
  expect(parseLabel(by, makeLabel(by, call)).caller).toEqual({
    route: 'GET /v1/orders/:id',
    ip: '2001:db8::/64',
  })
})
