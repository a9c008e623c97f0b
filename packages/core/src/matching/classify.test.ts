import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Attributes } from '../call.js'
import { foldPath, matchPattern, parsePattern } from '../path.js'
import { parseRules } from '../rules/parse-rules.js'
import { sipKey } from '../sip-hash.js'
import { normalizeCall } from './call-view.js'
import { compileRules } from './compile.js'

const PRIORITIES = ['critical', 'writes', 'reads', 'test']
const CLASSIFY = [
  { match: { where: { mode: ['test'] } }, as: 'test' },
  { match: { method: 'POST', path: '/v1/charges' }, as: 'critical' },
  { match: { path: '/v1/accounts/:id/keys' }, as: 'critical' },
  { match: { where: { ip: '10.0.0.0/8' } }, as: 'writes' },
  { match: { method: 'GET', path: '/v1/*' }, as: 'reads' },
  { match: { where: { route: '/health' } }, as: 'critical' },
]

function classifierOf(more: object = {}) {
  const { rules, errors } = parseRules({
    priorities: PRIORITIES,
    classify: CLASSIFY,
    routes: ['/health'],
    rules: [],
    ...more,
  })
  expect(errors).toEqual([])
  if (rules === undefined) throw new Error('no rules')
  const snapshot = compileRules(rules, { secret: sipKey(new Uint8Array(16)) })
  return (attributes: Attributes) => normalizeCall(snapshot, attributes).priority?.name
}

describe('classify', () => {
  const priorityOf = classifierOf()

  test.each([
    [{ method: 'POST', path: '/v1/charges' }, 'critical'],
    [{ method: 'POST', path: '/V1/Charges/' }, 'critical'],
    [{ method: 'POST', path: '/v1/charges', mode: 'test' }, 'test'],
    [{ method: 'PUT', path: '/v1/accounts/a%20b/keys' }, 'critical'],
    [{ method: 'PUT', path: '/v1/accounts/a/b/keys' }, 'test'],
    [{ method: 'GET', path: '/v1/orders/7' }, 'reads'],
    [{ method: 'HEAD', path: '/v1/orders/7' }, 'reads'],
    [{ method: 'GET', path: '/v1' }, 'test'],
    [{ method: 'PATCH', path: '/v2', ip: '10.1.2.3' }, 'writes'],
    [{ method: 'PATCH', path: '/health' }, 'critical'],
    [{}, 'test'],
  ])('of the call %j is the first line that matches, else the last priority', (call, priority) => {
    expect(priorityOf(call)).toBe(priority)
  })

  test('a priority that the service hands down replaces the lines, if the set has it', () => {
    expect(priorityOf({ method: 'GET', path: '/v1/x', priority: 'critical' })).toBe('critical')
    expect(priorityOf({ method: 'GET', path: '/v1/x', priority: 'vip' })).toBe('reads')
  })

  test('a call that cannot be classified has no priority, so that no ceiling refuses it', () => {
    const mode = { toString: () => 'test' } as unknown as string
    expect(priorityOf({ mode })).toBeUndefined()
  })

  test('strict paths are compared with their case', () => {
    const strict = classifierOf({ strictPaths: true })
    expect(strict({ method: 'POST', path: '/V1/charges' })).toBe('test')
    expect(strict({ method: 'POST', path: '/v1/charges' })).toBe('critical')
  })

  test('without lines each call has the last priority', () => {
    expect(classifierOf({ classify: undefined })({ method: 'GET' })).toBe('test')
  })

  test('paths match as they do in rules', () => {
    const segments = fc.constantFrom('a', 'B', 'a.b', 'x+y', '(z)', '')
    const paths = fc.array(segments, { maxLength: 4 }).map((parts) => `/${parts.join('/')}`)
    const patterns = fc.constantFrom('/*', '/a/*', '/a/:x', '/:x/B', '/a.b/:x/*', '/:x', '/x+y/a')
    fc.assert(
      fc.property(paths, patterns, fc.boolean(), (path, text, strictPaths) => {
        const priorityOfPath = classifierOf({
          strictPaths,
          classify: [{ match: { path: text }, as: 'critical' }],
        })
        const pattern = parsePattern(text)
        if ('problem' in pattern) throw new Error(pattern.problem)
        const seen = strictPaths ? path : foldPath(path)
        const isMatched = matchPattern(pattern, seen, strictPaths)
        let found: string | undefined
        try {
          found = priorityOfPath({ path })
        } catch {
          return
        }
        expect(found === 'critical').toBe(isMatched && !path.includes('//'))
      }),
    )
  })
})
