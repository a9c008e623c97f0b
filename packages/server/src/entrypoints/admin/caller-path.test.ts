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
  test.each(VALUES)('%j is read as its id spells it', (user) => {
    const id = callerId(['user'], { user })
    expect(readPathCaller(id, ['user'])).toEqual({ id, caller: { user } })
  })

  test.each(VALUES)('%j is read where the id was encoded once more', (user) => {
    const id = callerId(['user'], { user })
    expect(readPathCaller(encodeURIComponent(id), ['user'])).toEqual({ id, caller: { user } })
  })

  test('both spellings mean the same caller, whatever the values', () => {
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

  test('attributes may come in any order, and the id has the order of the rule', () => {
    const { id } = readPathCaller('plan=pro,user=u1', ['user', 'plan'])
    expect(id).toBe('user=u1,plan=pro')
  })

  test('only a comma between attributes may be encoded, as Go does', () => {
    const { caller } = readPathCaller('user=u1%2Cplan=pro', ['user', 'plan'])
    expect(caller).toEqual({ user: 'u1', plan: 'pro' })
  })

  test('everybody is the one caller of a rule that counts all calls together', () => {
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
  ])('%s is no caller of a rule by %j, and the message says what is', (segment, by) => {
    expect(() => readPathCaller(segment, by)).toThrow(/^caller: found .*; accepted: /)
  })
})

test('what a rule counts by is a list, one name, or nothing', () => {
  expect(byOf({ by: ['user', 'ip'] })).toEqual(['user', 'ip'])
  expect(byOf({ by: 'user' })).toEqual(['user'])
  expect(byOf({})).toEqual([])
})
