import { describe, expect, test } from 'vitest'
import { digestOf } from '../decision-api/api-authorization.js'
import type { TokenAuthenticator } from './principals.js'
import { COOKIE, createSessions, setCookie } from './sessions.js'

const HOUR_MS = 3_600_000
const principal = { id: 't_1', name: 'ann', role: 'edit' } as const

function sessionsOf(
  more: { readonly root?: string; readonly token?: string; readonly endsAtMs?: number } = {},
) {
  const { root = 'root', token = 'ann-token', endsAtMs } = more
  const clock = { ms: 1_767_225_600_000, now: () => clock.ms }
  const known = { principal, digest: digestOf(token), endsAtMs }
  const gate: Pick<TokenAuthenticator, 'find'> = {
    find: (id) => (id === principal.id ? known : undefined),
  }
  return { clock, sessions: createSessions({ rootToken: root, tokenAuthenticator: gate, clock }) }
}

function begin(at: ReturnType<typeof sessionsOf>) {
  const begun = at.sessions.begin(principal.id)
  if (begun === undefined) throw new Error('no session')
  return { ...begun, cookie: `${COOKIE}=${begun.value}` }
}

describe('a session', () => {
  test('has the principal of its token, for twelve hours', () => {
    const at = sessionsOf()
    const { cookie, session } = begin(at)
    expect(at.sessions.read(cookie)).toEqual(session)
    expect(session.principal).toEqual(principal)
    at.clock.ms += 12 * HOUR_MS - 1
    expect(at.sessions.read(cookie)?.principal.id).toBe('t_1')
    at.clock.ms += 1
    expect(at.sessions.read(cookie)).toBeUndefined()
  })

  test('outlives a restart, and is valid for no other server or token', () => {
    const { cookie } = begin(sessionsOf())
    expect(sessionsOf().sessions.read(cookie)?.principal).toEqual(principal)
    expect(sessionsOf({ root: 'other' }).sessions.read(cookie)).toBeUndefined()
    expect(sessionsOf({ token: 'made anew' }).sessions.read(cookie)).toBeUndefined()
  })

  test('ends with its token', () => {
    const endsAtMs = 1_767_225_600_000 + HOUR_MS
    expect(begin(sessionsOf({ endsAtMs })).session.expiresAtMs).toBe(endsAtMs)
    const gone = createSessions({
      rootToken: 'root',
      tokenAuthenticator: { find: () => undefined },
      clock: { now: () => 0 },
    })
    expect(gone.begin('t_1')).toBeUndefined()
    expect(gone.read(begin(sessionsOf()).cookie)).toBeUndefined()
  })

  test('contains neither the token nor its hash, and is never the same twice', () => {
    const at = sessionsOf()
    const first = begin(at)
    const second = begin(at)
    expect(first.value).not.toBe(second.value)
    expect(first.session.csrf).not.toBe(second.session.csrf)
    expect(first.value).not.toContain('ann-token')
    expect(first.value).not.toContain(digestOf('ann-token').toString('base64url'))
    expect(first.value).not.toContain(first.session.csrf)
  })

  test('is refused if any one character was changed', () => {
    const at = sessionsOf()
    const { value } = begin(at)
    for (let i = 0; i < value.length; i++) {
      const other = value[i] === 'A' ? 'B' : 'A'
      const changed = `${COOKIE}=${value.slice(0, i)}${other}${value.slice(i + 1)}`
      // The last character of base64 has unused bits, which must not be accepted in another form.
      expect([i, at.sessions.read(changed)]).toEqual([i, undefined])
    }
  })

  test('is found beside other cookies, and beside invalid ones of its own name', () => {
    const at = sessionsOf()
    const { cookie } = begin(at)
    const read = (header: string) => at.sessions.read(header)?.principal.id
    expect(read(`a=b; ${cookie}; c=d`)).toBe('t_1')
    expect(read(`${COOKIE}=bad; ${cookie}`)).toBe('t_1')
    expect(read(`x${cookie}`)).toBeUndefined()
    expect(read(`${`${COOKIE}=bad; `.repeat(4)}${cookie}`)).toBeUndefined()
    expect(read('')).toBeUndefined()
    expect(at.sessions.read(undefined)).toBeUndefined()
  })
})

test('a session cookie is HttpOnly, SameSite and, over TLS, Secure', () => {
  expect(setCookie('v', 43_200, true)).toBe(
    'sluice_session=v; Path=/admin; Max-Age=43200; HttpOnly; SameSite=Strict; Secure',
  )
  expect(setCookie('', -5, false)).toBe(
    'sluice_session=; Path=/admin; Max-Age=0; HttpOnly; SameSite=Strict',
  )
})
