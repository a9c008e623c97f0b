import { expect, test } from 'vitest'
import { bearerToken } from './bearer-token.js'

test.each([
  ['Bearer abc', 'abc'],
  ['bearer  abc', 'abc'],
  ['Bearer a b', 'a b'],
])('"%s" has the token "%s"', (authorization, token) => {
  expect(bearerToken(authorization)).toBe(token)
})

test.each(['Bearer', 'Bearer ', 'bearer   ', 'Basic abc', 'Bearerabc', ''])(
  '"%s" has no token',
  (authorization) => {
    expect(bearerToken(authorization)).toBeUndefined()
  },
)
