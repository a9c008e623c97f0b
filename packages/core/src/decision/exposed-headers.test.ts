import { describe, expect, test } from 'vitest'
import { exposeHeaders } from './exposed-headers.js'

const HEADERS = ['RateLimit', '"a";r=0', 'Retry-After', '1', 'Cache-Control', 'no-store']

describe('the list of exposed headers', () => {
  test('names every header that browsers would hide', () => {
    expect(exposeHeaders(undefined, HEADERS, false)).toBe('RateLimit, Retry-After')
  })

  test('keeps the names of a list that exists, and adds no name twice in any case', () => {
    expect(exposeHeaders('ETag, ratelimit', HEADERS, false)).toBe('ETag, ratelimit, Retry-After')
    expect(exposeHeaders(' ,ETag,, Link ,', HEADERS, true)).toBe(
      'ETag, Link, RateLimit, Retry-After',
    )
  })

  test('stays * where browsers read that as everything', () => {
    expect(exposeHeaders('*', HEADERS, false)).toBe('*')
    expect(exposeHeaders('ETag, *', HEADERS, false)).toBe('ETag, *')
  })

  test('names the headers beside a * that browsers read as a name, since credentials are allowed', () => {
    expect(exposeHeaders('*', HEADERS, true)).toBe('*, RateLimit, Retry-After')
  })
})
