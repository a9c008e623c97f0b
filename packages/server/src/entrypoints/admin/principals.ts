/** Authenticates the tokens of the admin API and checks their roles. */
import { timingSafeEqual } from 'node:crypto'
import { bearerOf, digestOf } from '../decision-api/api-authorization.js'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Role, TokenDocument } from '../../rules/store/records.js'
import type { RuleCatalog } from '../../rules/sync/rule-catalog.js'
import { AdminError } from './admin-error.js'

export interface Principal {
  /** The id of the token, or `root`. */
  readonly id: string
  /** Shown in the history of its changes. */
  readonly name: string
  readonly role: Role
}

/** The principal of the token that the server was started with. */
const ROOT: Principal = { id: 'root', name: 'admin', role: 'admin' }

export interface TokenAuthenticatorDeps {
  readonly rootToken: string
  readonly catalog: Pick<RuleCatalog, 'tokens'>
  readonly clock: WallClock
}

/** A principal whose token is valid now, and the stored form of the token. */
export interface KnownPrincipal {
  readonly principal: Principal
  /** SHA-256 of the token. */
  readonly digest: Buffer
  /** Milliseconds since 1970; undefined: it does not expire. */
  readonly endsAtMs: number | undefined
}

export interface TokenAuthenticator {
  /** Undefined if the token is unknown. */
  principalOf(authorization: string | undefined): Principal | undefined
  /** Finds a valid token by its id. */
  find(id: string): KnownPrincipal | undefined
}

/**
 * Compares hashes of equal length, and always with every known token: the time it takes reveals
 * neither the length of a token nor how much of it was right.
 */
export function createTokenAuthenticator({
  rootToken,
  catalog,
  clock,
}: TokenAuthenticatorDeps): TokenAuthenticator {
  const root = digestOf(rootToken)
  const digests = new WeakMap<TokenDocument, Buffer>()
  const digestOfStored = (document: TokenDocument) => {
    const known = digests.get(document)
    if (known !== undefined) return known
    // A token that was written into the store by hand may lack one.
    const hash: unknown = document.hash
    const digest = Buffer.from(typeof hash === 'string' ? hash : '', 'hex')
    digests.set(document, digest)
    return digest
  }
  return {
    principalOf(authorization) {
      const sent = digestOf(bearerOf(authorization))
      let principal = timingSafeEqual(sent, root) ? ROOT : undefined
      for (const { id, document } of catalog.tokens()) {
        const digest = digestOfStored(document)
        if (digest.length !== sent.length) continue
        const isSame = timingSafeEqual(sent, digest)
        if (isSame && !hasExpired(document, clock.now())) {
          principal = principalOfToken(id, document)
        }
      }
      return principal
    },
    find(id) {
      if (id === ROOT.id) return { principal: ROOT, digest: root, endsAtMs: undefined }
      const found = catalog.tokens().find((token) => token.id === id)
      if (found === undefined || hasExpired(found.document, clock.now())) return undefined
      const digest = digestOfStored(found.document)
      if (digest.length !== root.length) return undefined
      const { expiresAt } = found.document
      const endsAtMs = expiresAt === undefined ? undefined : Date.parse(expiresAt)
      return { principal: principalOfToken(id, found.document), digest, endsAtMs }
    },
  }
}

function principalOfToken(id: string, { name, role }: TokenDocument): Principal {
  return { id, name, role }
}

/** An expiry that cannot be parsed has passed. */
function hasExpired({ expiresAt }: TokenDocument, nowMs: number): boolean {
  return expiresAt !== undefined && !(Date.parse(expiresAt) > nowMs)
}

const RANKS: Readonly<Record<Role, number>> = { read: 0, edit: 1, admin: 2 }

export function requireRole(principal: Principal, needed: Role, what: string): void {
  if (RANKS[principal.role] >= RANKS[needed]) return
  throw new AdminError(
    'forbidden',
    `${what} needs the role ${needed}; this token has the role ${principal.role}.`,
  )
}

/**
 * Whether a browser sent this for a page of another site. Pages cannot omit these headers; the
 * dashboard has the same origin. Another port of the same host is another site.
 */
export function isCrossSite(header: (name: string) => string | undefined, host: string): boolean {
  const site = header('sec-fetch-site')
  if (site !== undefined && site !== 'none' && site !== 'same-origin') return true
  const origin = header('origin')
  return origin !== undefined && !isOrigin(origin, host)
}

function isOrigin(origin: string, host: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === host
}
