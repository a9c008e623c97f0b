import { describe, expect, test } from 'vitest'
import { createTokens, isFromPage } from './api-authorization.js'

const API = 'api-token-0123456789'
const ADMIN = 'admin-token-0123456789'
const both = createTokens({ apiToken: API, adminToken: ADMIN })
const open = createTokens({ apiToken: undefined, adminToken: ADMIN })

describe('the rights of a request', () => {
  test.each([
    ['the API token', `Bearer ${API}`, 'api'],
    ['the admin token', `Bearer ${ADMIN}`, 'admin'],
    ['a scheme in small letters', `bearer ${API}`, 'api'],
    ['a scheme in capitals', `BEARER ${API}`, 'api'],
    ['several spaces', `Bearer   ${API}`, 'api'],
    ['nothing', undefined, undefined],
    ['an empty header', '', undefined],
    ['a scheme alone', 'Bearer', undefined],
    ['a scheme and a space', 'Bearer ', undefined],
    ['another scheme', `Basic ${API}`, undefined],
    ['the token alone', API, undefined],
    ['the token run into its scheme', `Bearer${API}`, undefined],
    ['one character', 'Bearer a', undefined],
    ['the token in other letters', `Bearer ${API.toUpperCase()}`, undefined],
    ['a part of the token', `Bearer ${API.slice(0, -1)}`, undefined],
    ['more than the token', `Bearer ${API}x`, undefined],
    ['two tokens', `Bearer ${API}, Bearer ${ADMIN}`, undefined],
    ['a megabyte', `Bearer ${'x'.repeat(1024 * 1024)}`, undefined],
  ])('are found for %s', (_what, authorization, rights) => {
    expect(both.rightsOf(authorization)).toBe(rights)
  })

  test.each([
    ['nothing', undefined, 'anybody'],
    ['a wrong token', 'Bearer x', 'anybody'],
    ['the admin token', `Bearer ${ADMIN}`, 'admin'],
  ])('are found for %s if the API has no token', (_what, authorization, rights) => {
    expect(open.rightsOf(authorization)).toBe(rights)
  })
})

describe('isFromPage', () => {
  test.each([
    [{ origin: 'https://evil.example' }, true],
    [{ origin: 'null' }, true],
    [{ origin: 'http://127.0.0.1:8081' }, true],
    [{ 'sec-fetch-site': 'cross-site' }, true],
    [{ 'sec-fetch-site': 'same-site' }, true],
    [{ 'sec-fetch-site': 'none' }, false],
    [{ 'sec-fetch-site': 'same-origin' }, false],
    [{}, false],
  ])('for %o is %s', (headers, isPage) => {
    expect(isFromPage(headers)).toBe(isPage)
  })
})
