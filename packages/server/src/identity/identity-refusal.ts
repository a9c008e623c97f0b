/** The response to a call whose caller could not be identified. */
import type { IdentityConfig } from '../config/config.js'
import type { TokenProblem } from './jwt/token-verifier.js'

/** Why a call lacks the identity it claims. */
export type IdentityProblem =
  /** The connection has ended, so its address is not known. */
  | 'no_address'
  /** An identity header was sent twice. */
  | 'ambiguous_header'
  | 'unknown_key'
  | 'disabled_key'
  | TokenProblem

export interface IdentityRefusal {
  readonly status: 400 | 401 | 429 | 503
  readonly detail: string
  /** A short word that scripts can test. */
  readonly error: string
  /** Names and values in turn. */
  readonly headers: string[]
}

interface IdentityOutcome {
  readonly attributes: Readonly<Record<string, string>>
  readonly problem: IdentityProblem | undefined
}

/** Undefined if the call may continue, with or without a user. */
export function refusalOfIdentity(
  { attributes, problem }: IdentityOutcome,
  config: IdentityConfig,
  needsUser: boolean,
): IdentityRefusal | undefined {
  if (problem === 'no_address') {
    return refuse(400, 'The connection of the caller has ended.', 'no_address')
  }
  if (problem === 'ambiguous_header') {
    return refuse(400, 'An identity header was sent more than once.', 'ambiguous_header')
  }
  const isKeyRefused = problem === 'unknown_key' || problem === 'disabled_key'
  if (isKeyRefused && config.apiKey.unknown === 'refuse') return refuseKey(config)
  if (!needsUser || attributes.user !== undefined) return undefined
  return isKeyRefused ? refuseKey(config) : refuseMissingUser(config, problem)
}

/** Unknown and disabled keys get the same response, which does not reveal registered keys. */
function refuseKey(config: IdentityConfig): IdentityRefusal {
  const detail = 'The API key is unknown or disabled.'
  return refuse(401, detail, 'unknown_key', ['WWW-Authenticate', keyChallenge(config)])
}

function refuseMissingUser(
  config: IdentityConfig,
  problem: TokenProblem | undefined,
): IdentityRefusal {
  switch (problem) {
    case 'invalid_token':
      return refuseToken('The token is not valid.', problem)
    case 'expired_token':
      return refuseToken('The token has expired.', problem)
    case 'token_failures':
      // Not 401: the token may be valid, and a 401 would log its owner out.
      return refuse(429, 'Too many invalid tokens from this address.', problem, [
        'Retry-After',
        '1',
      ])
    case 'unverified_token':
      return refuse(503, 'The token cannot be verified at the moment.', problem, [
        'Retry-After',
        '5',
      ])
    case undefined: {
      const challenge = config.jwt === undefined ? keyChallenge(config) : 'Bearer'
      return refuse(401, 'This path requires a user.', 'user_required', [
        'WWW-Authenticate',
        challenge,
      ])
    }
  }
}

/** RFC 6750 has one error code for all invalid tokens. */
function refuseToken(detail: string, error: TokenProblem): IdentityRefusal {
  return refuse(401, detail, error, ['WWW-Authenticate', 'Bearer error="invalid_token"'])
}

function keyChallenge({ apiKey }: IdentityConfig): string {
  return `ApiKey header="${apiKey.header}"`
}

function refuse(
  status: IdentityRefusal['status'],
  detail: string,
  error: string,
  headers: string[] = [],
): IdentityRefusal {
  return { status, detail, error, headers }
}
