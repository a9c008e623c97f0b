/** The one door of the admin API: who is let in, or not, whatever is asked for. */
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

/** What is known of whoever sent a request, beside who it is. */
export interface Sender {
  /** The id of the token; empty where nobody was asked. */
  readonly tokenId: string
  /** Of the connection, or whom a trusted proxy names. */
  readonly address: string
  /** Whether nobody on the way could have read it. */
  readonly isEncrypted: boolean
  /** Whether it did not leave this machine, as its sender sees it. */
  readonly isLoopback: boolean
  /** Host and port as the sender knows them. */
  readonly host: string
  /** Whether only the head of the answer is wanted. */
  readonly isHead: boolean
  /** Undefined: it came with a token. */
  readonly session: Session | undefined
  /** Whether the same would still be let in. */
  readonly isStillAuthenticated: () => boolean
  /** Ends the connection in the middle of an answer. */
  readonly cut: () => void
}

export interface AuthenticatorDeps extends AdminDeps {
  readonly tokenAuthenticator: TokenAuthenticator
  readonly sessions: Sessions
  readonly limits: SelfRateLimit
}

export interface AuthContext {
  /** Undefined where nobody has to be known. */
  readonly principal: Principal | undefined
  readonly sender: Sender
  /** What the answer says of its own limits. */
  readonly headers: Readonly<Record<string, string>>
}

/** What the door has to know of what is asked for. */
export interface OperationAccess {
  readonly isOpen: boolean
  readonly writes: boolean
  /** Whether it is usual to come without credentials, to find out that some are needed. */
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

/** Fails closed: whoever is not known, or known to call too often, gets no further. */
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
      // Who asks with nothing in hand guesses nothing, and needs the answer to find the way in.
      if (operation.isSessionProbe && authorization === undefined && !hasCookie(cookies))
        throw unauthorized()
      const passed = throttle.pass('unauthorized')
      if (passed !== undefined) {
        log.warn({ address, ...passed }, 'a call without a good admin token')
      }
      limits.recordFailure(address)
      throw unauthorized()
    }
    const { principal, session } = credentials
    const headers = limits.checkCall(principal.id, operation.writes)
    // By its method and not by what it is said to do: a browser sends the cookie whoever asks.
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

/** A token that is shown says who it is, and where it is wrong no cookie makes up for it. */
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

/** Without a socket there is no address: such requests count together. */
const NO_ADDRESS = '0.0.0.0'

function addressOf(env: Bindings, { addressOf: given }: AdminDeps): string {
  const incoming = env?.incoming
  if (incoming === undefined) return NO_ADDRESS
  return given?.(incoming) ?? incoming.socket.remoteAddress ?? NO_ADDRESS
}

/**
 * A page of our own says in `Origin` how it was fetched, and no script can say otherwise: so a
 * proxy that ends TLS need not be known here.
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
