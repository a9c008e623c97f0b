import { describe, expect, test } from 'vitest'
import { findRoute, pathBelow, ROUTES } from './routes.js'

describe('a route', () => {
  test.each(ROUTES.map(({ path }) => path))('%s is found, whatever its query', (path) => {
    expect(findRoute(path)?.path).toBe(path)
    expect(findRoute(`${path}?x=1`)?.path).toBe(path)
    expect(findRoute(`http://api.example:8081${path}`)?.path).toBe(path)
  })

  test.each([
    '',
    '/',
    '*',
    '/v1',
    '/v1/check/',
    '/V1/check',
    '//v1/check',
    '/v1/../v1/check',
    '/v1/%63heck',
    '/v1/check#x',
    '/v1/forward-authx',
    '/v1/forward-aut',
    '/constructor',
    '__proto__',
  ])('%s is not found', (url) => {
    expect(findRoute(url)).toBeUndefined()
  })
})

describe('the path after the prefix of forward-auth', () => {
  test.each([
    ['/v1/forward-auth', undefined],
    ['/v1/forward-auth/', undefined],
    ['/v1/forward-auth?x=1', undefined],
    ['/v1/forward-auth/?x=1', undefined],
    ['/v1/forward-auth/orders/1?x', '/orders/1?x'],
    ['/v1/forward-auth//orders', '//orders'],
    ['http://api.example/v1/forward-auth/orders', '/orders'],
  ])('for %s is %s', (url, path) => {
    expect(findRoute(url)?.serves).toBe('forward-auth')
    expect(pathBelow(url)).toBe(path)
  })
})
