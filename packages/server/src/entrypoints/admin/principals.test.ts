import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Role } from '../../rules/store/records.js'
import type { CatalogToken } from '../../rules/sync/rule-catalog.js'
import { createTokenAuthenticator, isCrossSite, requireRole } from './principals.js'

const ROOT = 'root-token-0123456789abcdef'
const NOW = Date.parse('2026-01-01T00:00:00Z')

function stored(token: string, role: Role, more: object = {}): CatalogToken {
  const hash = createHash('sha256').update(token).digest('hex')
  const document = { hash, name: `name of ${token}`, role, createdAt: '2026-01-01', ...more }
  return { id: `id-${token}`, document, version: 1 }
}

function authenticatorOf(...tokens: readonly CatalogToken[]) {
  return createTokenAuthenticator({
    rootToken: ROOT,
    catalog: { tokens: () => tokens },
    clock: { now: () => NOW },
  })
}

describe('the principal of a token', () => {
  const gate = authenticatorOf(stored('ci', 'edit'), stored('eye', 'read'))

  test('is admin for the token of the server', () => {
    expect(gate.principalOf(`Bearer ${ROOT}`)).toEqual({ id: 'root', name: 'admin', role: 'admin' })
  })

  test.each(['Bearer', 'bearer', 'BEARER', 'BeArEr'])(
    'is found if the scheme is written %s',
    (scheme) => {
      expect(gate.principalOf(`${scheme} ${ROOT}`)?.name).toBe('admin')
    },
  )

  test('has its own name and role for a token of the rule store', () => {
    expect(gate.principalOf('Bearer ci')).toEqual({ id: 'id-ci', name: 'name of ci', role: 'edit' })
  })

  test.each([
    ['nothing', undefined],
    ['an empty header', ''],
    ['the scheme alone', 'Bearer'],
    ['no token', 'Bearer '],
    ['one character', 'Bearer x'],
    ['all but the last character', `Bearer ${ROOT.slice(0, -1)}`],
    ['one character more', `Bearer ${ROOT}x`],
    ['a megabyte', `Bearer ${'x'.repeat(1024 * 1024)}`],
    ['the token and a megabyte', `Bearer ${ROOT}${'x'.repeat(1024 * 1024)}`],
    ['another scheme', `Basic ${ROOT}`],
    ['no scheme', ROOT],
    ['two tokens', `Bearer ${ROOT}, Bearer ${ROOT}`],
    ['the hash of a token', `Bearer ${stored('ci', 'edit').document.hash}`],
  ])('does not exist for %s', (_what, sent) => {
    expect(gate.principalOf(sent)).toBeUndefined()
  })

  test('does not exist for a token without a hash, which affects no other token', () => {
    const odd = authenticatorOf(
      ...[undefined, null, 5, {}].map((hash) => stored('odd', 'admin', { hash })),
    )
    expect(odd.principalOf(`Bearer ${ROOT}`)?.name).toBe('admin')
    expect(odd.principalOf('Bearer odd')).toBeUndefined()
    expect(odd.principalOf(undefined)).toBeUndefined()
  })

  test('exists until the instant the token expires', () => {
    const good = stored('later', 'read', { expiresAt: '2026-01-01T00:00:00.001Z' })
    const past = stored('now', 'read', { expiresAt: '2026-01-01T00:00:00Z' })
    const odd = stored('odd', 'read', { expiresAt: 'someday' })
    const all = authenticatorOf(good, past, odd)
    expect(all.principalOf('Bearer later')?.role).toBe('read')
    expect(all.principalOf('Bearer now')).toBeUndefined()
    expect(all.principalOf('Bearer odd')).toBeUndefined()
  })

  test('does not exist for a hash of another length that was stored by hand', () => {
    const short = stored('short', 'admin', { hash: '' })
    expect(authenticatorOf(short).principalOf('Bearer ')).toBeUndefined()
    expect(authenticatorOf(short).principalOf(`Bearer ${ROOT}`)?.name).toBe('admin')
  })
})

describe('requireRole', () => {
  const roles: readonly Role[] = ['read', 'edit', 'admin']
  test.each(roles.flatMap((has) => roles.map((needed) => [has, needed] as const)))(
    'checks the role %s where %s is needed',
    (has, needed) => {
      const may = roles.indexOf(has) >= roles.indexOf(needed)
      const check = () => requireRole({ id: 'x', name: 'x', role: has }, needed, 'It')
      if (may) expect(check).not.toThrow()
      else expect(check).toThrow(`It needs the role ${needed}; this token has the role ${has}.`)
    },
  )
})

describe('isCrossSite', () => {
  const foreign = (headers: Readonly<Record<string, string>>) =>
    isCrossSite((name) => headers[name], 'sluice.internal:9090')

  test.each([
    {},
    { 'sec-fetch-site': 'none' },
    { 'sec-fetch-site': 'same-origin' },
    { 'sec-fetch-site': 'same-origin', origin: 'http://sluice.internal:9090' },
    { origin: 'https://sluice.internal:9090' },
  ])('is false for %j', (headers) => expect(foreign(headers)).toBe(false))

  test.each([
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    { origin: 'http://sluice.internal' },
    { origin: 'http://sluice.internal:9091' },
    { origin: 'http://sluice.internal:9090.evil.example' },
    { origin: 'null' },
    { origin: '' },
    { 'sec-fetch-site': 'cross-site', origin: 'http://sluice.internal:9090' },
  ])('is true for %j', (headers) => expect(foreign(headers)).toBe(true))
})
