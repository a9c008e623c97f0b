import { describe, expect, test } from 'vitest'
import { hrefs, isLocalHref, readRoute } from './router.js'

describe('routes', () => {
  test.each([
    ['/', 'overview'],
    ['/rules', 'rules'],
    ['/rules/', 'rules'],
    ['/callers', 'callers'],
    ['/nodes', 'nodes'],
    ['/alerts', 'alerts'],
    ['/why', 'why'],
    ['/playground', 'playground'],
    ['/login', 'login'],
    ['/rules/a/b', 'unknown'],
    ['/rules/%E0%A4%A', 'unknown'],
    ['/constructor', 'unknown'],
  ])('the address %s opens the page %s', (path, name) => {
    expect(readRoute(path, '').name).toBe(name)
  })

  test('the address of a rule keeps any characters of its id', () => {
    for (const id of ['per-user', 'a/b c?d#e', '100%', '日本']) {
      expect(readRoute(hrefs.rule(id), '')).toMatchObject({ name: 'rule', id })
    }
  })

  test('the address of an explanation has the attributes of the caller', () => {
    const [path = '', search = ''] = hrefs.why({ user: 'a&b=c', ip: '::1' }).split('?')
    const { name, query } = readRoute(path, search)
    expect(name).toBe('why')
    expect(Object.fromEntries(query)).toEqual({ user: 'a&b=c', ip: '::1' })
  })

  test('values that are too long for a URL are left out', () => {
    expect(hrefs.why({ user: 'x'.repeat(1_000_000), ip: '::1' })).toBe('/why?ip=%3A%3A1')
  })

  test('the address for a refused caller has the rule, the plan and the request to match it', () => {
    expect(hrefs.whyRefused('r', { user: 'u1' }, 'pro')).toBe('/why?plan=pro&user=u1&rule=r&meet=1')
    expect(hrefs.whyRefused('r', {}, null)).toBe('/why?rule=r&meet=1')
    expect(hrefs.why({ user: 'u1' }, 'r')).toBe('/why?user=u1&rule=r')
  })

  test('the address of an override has the caller', () => {
    expect(hrefs.override('r', { user: 'u1' })).toBe('/rules/r?override.user=u1')
  })
})

describe('the redirect after the login', () => {
  test.each(['/', '/rules?x=1', '/callers'])('the local address %s is accepted', (href) => {
    expect(isLocalHref(href)).toBe(true)
    expect(hrefs.login(href)).toBe(`/login?back=${encodeURIComponent(href)}`)
  })

  test.each([
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    'javascript:x',
    '/\t/evil.example',
    '/\n\\evil.example',
    '/rules\r\n',
    '/login?back=/',
  ])('the address %s is not accepted', (href) => {
    expect(isLocalHref(href)).toBe(false)
    expect(hrefs.login(href)).toBe('/login')
  })
})
