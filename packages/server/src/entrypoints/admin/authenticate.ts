/** Authenticates every request to the admin API, before its path is matched. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createThrottle } from '../../observability/log/throttle.js'
import { type TokenAuthenticator, type Principal, isCrossSite } from './principals.js'
import type { AdminDeps } from './admin-deps.js'
import { isLoopbackHostname, isTls } from './transport-security.js'
import { crossSite, csrfMismatch, unauthorized } from './admin-error.js'
import type { SelfRateLimit } from './self-rate-limit.js'
import {
  CSRF_HEADER,
  hasCookie,
  equalInConstantTime,
  type Session,
  type Sessions,
} from './sessions.js'

/** The connection and session that a request came with. */
export interface Sender {
  /** The id of the token; empty if the operation is open. */
  readonly tokenId: string
  /** The address of the connection, or the client that a trusted proxy names. */
  readonly address: string
  /** Whether the request was encrypted from the client to the nearest proxy, or to here. */
  readonly isEncrypted: boolean
  /** Whether the client addressed a loopback host. */
  readonly isLoopback: boolean
  /** Host and port as the sender knows them. */
  readonly host: string
  /** Whether the method is HEAD. */
  readonly isHead: boolean
  /** Undefined if the request came with a token. */
  readonly session: Session | undefined
  /** Whether the same credentials are still valid. */
  readonly isStillAuthenticated: () => boolean
  /** Closes the connection in the middle of a response. */
  readonly cut: () => void
}

export interface AuthenticatorDeps extends AdminDeps {
  readonly tokenAuthenticator: TokenAuthenticator
  readonly sessions: Sessions
  readonly limits: SelfRateLimit
}

export interface AuthContext {
  /** Undefined if the operation is open. */
  readonly principal: Principal | undefined
  readonly sender: Sender
  /** Rate limit headers of the response. */
  readonly headers: Readonly<Record<string, string>>
}

/** What authentication depends on besides the request itself. */
export interface OperationAccess {
  readonly isOpen: boolean
  readonly writes: boolean
  /** Whether a browser checks if it has a session: having none is not a failed attempt. */
  readonly isSessionProbe: boolean
}

/** Both sides of the connection, as the adapter of node:http passes them on. */
export type Bindings =
  | { readonly incoming?: IncomingMessage; readonly outgoing?: ServerResponse }
  | undefined
export type Authenticator = (
  request: Request,
  env: Bindings,
  operation: OperationAccess,
) => AuthContext

export function headerOf({ headers }: Request, name: string): string | undefined {
  return headers.get(name) ?? undefined
}

const CHANGES_NOTHING: readonly string[] = ['GET', 'HEAD']

/** Throws for requests that are cross-site, unauthenticated or over the admin API's own limits. */
export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const { clock, log, tokenAuthenticator, sessions, limits } = deps
  const throttle = createThrottle(clock)
  return (request, env, operation) => {
    const { host } = new URL(request.url)
    if (isCrossSite((name) => headerOf(request, name), host)) throw crossSite()
    const authorization = headerOf(request, 'authorization')
    const cookies = headerOf(request, 'cookie')
    const authenticate = () =>
      verifyCredentials(tokenAuthenticator, sessions, authorization, cookies)
    const credentials = operation.isOpen ? undefined : authenticate()
    const address = addressOf(env, deps)
    const sender: Sender = {
      tokenId: credentials?.principal.id ?? '',
      address,
      isEncrypted: isEncrypted(request, env, deps),
      isLoopback: isLoopbackHostname(new URL(request.url).hostname),
      host,
      isHead: request.method === 'HEAD',
      session: credentials?.session,
      isStillAuthenticated: () => authenticate()?.principal.id === credentials?.principal.id,
      cut: () => void env?.outgoing?.destroy(),
    }
    if (operation.isOpen) return { principal: undefined, sender, headers: {} }
    if (credentials === undefined) {
      // A request without any credentials guesses none, so it does not count as a failure.
      if (operation.isSessionProbe && authorization === undefined && !hasCookie(cookies))
        throw unauthorized()
      const passed = throttle.pass('unauthorized')
      if (passed !== undefined) {
        log.warn({ address, ...passed }, 'admin request rejected: invalid token')
      }
      limits.recordFailure(address)
      throw unauthorized()
    }
    const { principal, session } = credentials
    const headers = limits.checkCall(principal.id, operation.writes)
    // By method, whatever the operation does: browsers send the cookie with every request.
    if (session !== undefined && !CHANGES_NOTHING.includes(request.method)) {
      if (!equalInConstantTime(headerOf(request, CSRF_HEADER) ?? '', session.csrf))
        throw csrfMismatch()
    }
    return { principal, sender, headers }
  }
}

interface VerifiedCredentials {
  readonly principal: Principal
  readonly session: Session | undefined
}

/** A token takes precedence over the cookie, also if the token is wrong. */
function verifyCredentials(
  tokenAuthenticator: TokenAuthenticator,
  sessions: Sessions,
  authorization: string | undefined,
  cookies: string | undefined,
): VerifiedCredentials | undefined {
  if (authorization === undefined) {
    const session = sessions.read(cookies)
    return session && { principal: session.principal, session }
  }
  const principal = tokenAuthenticator.principalOf(authorization)
  return principal && { principal, session: undefined }
}

/** Requests without a socket share one address. */
const NO_ADDRESS = '0.0.0.0'

function addressOf(env: Bindings, { addressOf: given }: AdminDeps): string {
  const incoming = env?.incoming
  if (incoming === undefined) return NO_ADDRESS
  return given?.(incoming) ?? incoming.socket.remoteAddress ?? NO_ADDRESS
}

/**
 * The `Origin` of the dashboard shows that it was loaded over HTTPS, and no script can forge it. So
 * a proxy that terminates TLS need not be configured here.
 */
function isEncrypted(
  request: Request,
  env: Bindings,
  { isEncrypted: given = isTls }: AdminDeps,
): boolean {
  if (headerOf(request, 'origin')?.startsWith('https://') === true) return true
  const incoming = env?.incoming
  return incoming !== undefined && given(incoming)
}
