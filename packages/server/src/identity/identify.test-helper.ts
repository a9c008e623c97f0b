import { hash } from 'node:crypto'
import { parseTrustedProxies } from '@sluice/core'
import type { IdentityConfig, KnownKey } from '../config/config.js'
import {
  createIdentifier,
  type Identifier,
  type Identity,
  type IdentifiableRequest,
} from './identify.js'
import type { TokenVerifier } from './jwt/token-verifier.js'

export const SECRET = Uint8Array.from({ length: 16 }, (_, at) => at)
export const PEER = '198.51.100.7'

export function identityConfig(changes: Partial<IdentityConfig> = {}): IdentityConfig {
  return {
    ipv6Prefix: 64,
    apiKey: { header: 'x-api-key', unknown: 'anonymous' },
    keys: [],
    jwt: undefined,
    proxyHeaders: { user: 'x-auth-user', plan: 'x-auth-plan', priority: 'x-priority' },
    headers: [],
    ...changes,
  }
}

export function knownKey(key: string, changes: Partial<KnownKey> = {}): KnownKey {
  return {
    sha256: hash('sha256', key),
    user: undefined,
    plan: undefined,
    state: 'active',
    ...changes,
  }
}

export interface TestIdentifierOptions extends Partial<IdentityConfig> {
  readonly trusted?: readonly string[]
  readonly forwardedHeader?: 'x-forwarded-for' | 'forwarded'
  readonly tokens?: TokenVerifier
}

export function createTestIdentifier(options: TestIdentifierOptions = {}): Identifier {
  const { trusted = [], forwardedHeader = 'x-forwarded-for', tokens, ...config } = options
  return createIdentifier({
    config: identityConfig(config),
    trustedProxies: parseTrustedProxies(trusted).cidrs,
    forwardedHeader,
    secret: SECRET,
    tokens,
  })
}

/** Headers as pairs, in the order in which they are sent, including repeated ones. */
export function requestFrom(
  headers: readonly (readonly [string, string])[] = [],
  remoteAddress: string | undefined = PEER,
): IdentifiableRequest {
  return { rawHeaders: headers.flat(), socket: { remoteAddress } }
}

/** The identity without waiting; fails if it is a promise. */
export function identifyNow(identifier: Identifier, request: IdentifiableRequest): Identity {
  const identity = identifier.identify(request)
  if (identity instanceof Promise) throw new Error('found a promise; accepted: an answer at once')
  return identity
}
