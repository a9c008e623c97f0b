import { describe, expect, test } from 'vitest'
import { identityConfig } from './identify.test-helper.js'
import { type IdentityProblem, refusalOfIdentity } from './identity-refusal.js'
import { jwtConfig } from './jwt/token-verifier.test-helper.js'

const jwt = jwtConfig()
const lenient = identityConfig({ jwt })
const strict = identityConfig({ jwt, apiKey: { header: 'x-api-key', unknown: 'refuse' } })
const anonymous = { ip: '198.51.100.7' }

function statusOf(problem: IdentityProblem | undefined, needsUser: boolean, config = lenient) {
  return refusalOfIdentity({ attributes: anonymous, problem }, config, needsUser)?.status
}

describe('the refusal of an unresolved identity', () => {
  test.each<[IdentityProblem | undefined, number | undefined, number | undefined]>([
    ['no_address', 400, 400],
    ['ambiguous_header', 400, 400],
    ['unknown_key', undefined, 401],
    ['disabled_key', undefined, 401],
    ['invalid_token', undefined, 401],
    ['expired_token', undefined, 401],
    ['token_failures', undefined, 429],
    ['unverified_token', undefined, 503],
    [undefined, undefined, 401],
  ])('for %s is %s, and %s where a user is needed', (problem, open, needed) => {
    expect(statusOf(problem, false)).toBe(open)
    expect(statusOf(problem, true)).toBe(needed)
  })

  test('is 401 for an unknown or disabled key if the configuration refuses those', () => {
    const unknown = { attributes: { ...anonymous, user: 'u1' }, problem: 'unknown_key' } as const
    const disabled = { ...unknown, problem: 'disabled_key' } as const
    const refusal = refusalOfIdentity(unknown, strict, false)
    expect(refusal).toMatchObject({
      status: 401,
      headers: ['WWW-Authenticate', 'ApiKey header="x-api-key"'],
    })
    expect(refusalOfIdentity(disabled, strict, false)).toEqual(refusal)
    expect(statusOf('invalid_token', false, strict)).toBeUndefined()
  })

  test('does not happen to a user, whatever else it claimed', () => {
    const known = { attributes: { ...anonymous, user: 'u1' } }
    for (const problem of ['unknown_key', 'invalid_token', undefined] as const) {
      expect(refusalOfIdentity({ ...known, problem }, lenient, true)).toBeUndefined()
    }
  })

  test('explains how to fix the request', () => {
    const challenge = (problem: IdentityProblem | undefined, config = lenient) =>
      refusalOfIdentity({ attributes: anonymous, problem }, config, true)?.headers
    expect(challenge(undefined)).toEqual(['WWW-Authenticate', 'Bearer'])
    expect(challenge('expired_token')).toEqual(['WWW-Authenticate', 'Bearer error="invalid_token"'])
    expect(challenge('token_failures')).toEqual(['Retry-After', '1'])
    expect(challenge(undefined, identityConfig())).toEqual([
      'WWW-Authenticate',
      'ApiKey header="x-api-key"',
    ])
  })
})
