import fc from 'fast-check'
import { expect, test } from 'vitest'
import { callWith } from '../../../lib/normalized-call.test-helper.js'
import { BY_MAX, joinLabel, makeLabel, LABEL_LENGTH_MAX, parseLabel } from './caller-label.js'

test('a caller is told by the attributes that its rule counts by, and its plan', () => {
  const name = makeLabel(
    ['user', 'ip'],
    callWith({ user: 'ann', ip: '203.0.113.7', plan: 'free', path: '/' }),
  )
  expect(parseLabel(['user', 'ip'], name)).toEqual({
    caller: { user: 'ann', ip: '203.0.113.7' },
    plan: 'free',
  })
})

test('what is absent is left out', () => {
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

test('a plan that is no value is none', () => {
  const attributes = { user: 'ann', plan: {} } as unknown as Record<string, string>
  expect(parseLabel(['user'], makeLabel(['user'], callWith(attributes))).plan).toBeNull()
})

test('an attribute may have the name of anything', () => {
  const by = ['__proto__', 'constructor']
  expect(Object.entries(parseLabel(by, joinLabel('', ['a', 'b'])).caller)).toEqual([
    ['__proto__', 'a'],
    ['constructor', 'b'],
  ])
})

test('whatever the values are, a name is short, and reads back as what was put in', () => {
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

test('a whole address, key or id is told whole where a rule counts by one or two attributes', () => {
  const address = '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'
  const id = '3f0c9f3a-7c43-4be5-9d0e-5a4a3c1e9b11'
  const { caller } = parseLabel(
    ['ip', 'user'],
    makeLabel(['ip', 'user'], callWith({ ip: address, user: id })),
  )
  expect(caller).toEqual({ ip: address, user: id })
})

test('a caller that is counted by its route is told with it, and one by address with its network', () => {
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
