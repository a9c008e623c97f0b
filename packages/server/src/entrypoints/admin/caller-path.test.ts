import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { callerId } from '../../rules/store/records.js'
import { byOf, readPathCaller } from './caller-path.js'

const VALUES = [
  'u1',
  'a/b',
  'a,b',
  '100%',
  '%2F',
  'a=b',
  'größe 東京',
  '..',
  "it's (a) ~!*",
  '+ &?#',
]

describe('the caller of an override in a path', () => {
  test.each(VALUES)('%j is decoded from its id', (user) => {
    const id = callerId(['user'], { user })
    expect(readPathCaller(id, ['user'])).toEqual({ id, caller: { user } })
  })

  test.each(VALUES)('%j is decoded if the id was encoded once more', (user) => {
    const id = callerId(['user'], { user })
    expect(readPathCaller(encodeURIComponent(id), ['user'])).toEqual({ id, caller: { user } })
  })

  test('is the same in both spellings, whatever the values', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(text, text, (user, plan) => {
        const by = ['user', 'plan']
        const caller = { user, plan }
        const id = callerId(by, caller)
        expect(readPathCaller(id, by)).toEqual({ id, caller })
        expect(readPathCaller(encodeURIComponent(id), by)).toEqual({ id, caller })
      }),
    )
  })

  test('may have attributes in any order, and its id has the order of the rule', () => {
    const { id } = readPathCaller('plan=pro,user=u1', ['user', 'plan'])
    expect(id).toBe('user=u1,plan=pro')
  })

  test('may have only the comma between attributes encoded, as Go does', () => {
    const { caller } = readPathCaller('user=u1%2Cplan=pro', ['user', 'plan'])
    expect(caller).toEqual({ user: 'u1', plan: 'pro' })
  })

  test('is everybody for a rule that counts all calls together', () => {
    expect(readPathCaller('everybody', [])).toEqual({ id: 'everybody', caller: {} })
  })

  test.each([
    ['u1', ['user']],
    ['user=', ['user']],
    ['user=%zz', ['user']],
    ['user=%ff', ['user']],
    ['plan=pro', ['user']],
    ['user=u1', ['user', 'plan']],
    ['user=u1,user=u2', ['user', 'plan']],
    ['user=u1,plan=pro,ip=::1', ['user', 'plan']],
    ['user=u1', []],
    ['everybody', ['user']],
    ['__proto__=x', ['user']],
    [`user=${'x'.repeat(100_000)}`, ['user']],
  ])('%s is refused for a rule by %j, and the message says what is accepted', (segment, by) => {
    expect(() => readPathCaller(segment, by)).toThrow(/^caller: found .*; accepted: /)
  })
})

test('the field by of a rule is a list, one name, or empty', () => {
  expect(byOf({ by: ['user', 'ip'] })).toEqual(['user', 'ip'])
  expect(byOf({ by: 'user' })).toEqual(['user'])
  expect(byOf({})).toEqual([])
})
