/**
 * Identifies callers for every entry point. No claim of a caller is trusted: the address is that of
 * the socket unless a trusted proxy names another, a key must be registered, a token signed, and
 * headers that name a user are read from trusted proxies only.
 */
import { ATTRIBUTE_LENGTH_MAX, type CANONICAL_PATH, type SipKey } from '@sluice/core'
import type { IdentityConfig } from '../config/config.js'
import { bearerToken } from '../lib/bearer-token.js'
import { KnownKeys, type RegisteredKeys } from './api-keys/known-keys.js'
import {
  findClientOrigin,
  type ClientOrigin,
  type ClientOriginOptions,
} from './client-address/client-origin.js'
import type { IdentityProblem } from './identity-refusal.js'
import { maskValue, maskingKey } from './masked-value.js'
import { HeaderReader, type HeaderValue, DUPLICATED } from './identity-headers.js'
import type { TokenProblem, TokenStats, TokenUser, TokenVerifier } from './jwt/token-verifier.js'

export { refusalOfIdentity } from './identity-refusal.js'

/** The parts of a request that are read; Node's IncomingMessage fits. */
export interface IdentifiableRequest {
  readonly rawHeaders: readonly string[]
  readonly socket: { readonly remoteAddress?: string | undefined }
}

export interface Identity {
  /**
   * `ip`, `api_key`, `user`, `plan`, `priority` and the declared headers, as far as known. A new
   * object for each call, to which the caller of `identify` may add.
   */
  readonly attributes: Record<string, string> & { [CANONICAL_PATH]?: string }
  /** The peer is one of the trusted proxies. */
  readonly trusted: boolean
  /** The peer's address, canonical; empty if it has none. */
  readonly peer: string
  /** The value for X-Forwarded-For: the client, the trusted hops, the peer. */
  readonly forwardedFor: string
  /** Why the call has no identity although it claimed one. */
  readonly problem: IdentityProblem | undefined
}

interface IdentityStats {
  /** How often each problem occurred since the start. */
  readonly problems: Readonly<Record<IdentityProblem, number>>
  /** Forwarding headers that were ignored, since their sender is not trusted. */
  readonly ignoredForwarded: number
  /** Undefined if tokens are not configured. */
  readonly tokens: TokenStats | undefined
}

export interface Identifier {
  /**
   * A promise only if a signature has to be verified. Never fails. A token that cannot be verified
   * within `withinMs` is `unverified_token`, and the call goes on without a user. @default 1000
   */
  identify(request: IdentifiableRequest, withinMs?: number): Identity | Promise<Identity>
  /** Reads JWT key files again; rejects and keeps the active keys if one is invalid. */
  reload(): Promise<void>
  stats(): IdentityStats
  close(): Promise<void>
}

export interface IdentifierOptions extends ClientOriginOptions {
  readonly config: IdentityConfig
  /** The key of all hashes, 16 bytes. */
  readonly secret: Uint8Array
  /** Verifies tokens if the configuration has `jwt`. */
  readonly tokens?: TokenVerifier | undefined
  /** Keys of the rule store, in addition to those of the configuration. */
  readonly registered?: RegisteredKeys | undefined
}

export function createIdentifier(options: IdentifierOptions): Identifier {
  return new RequestIdentifier(options)
}

/** The identity of a call whose connection has ended already. */
function noIdentity(): Identity {
  return { attributes: {}, trusted: false, peer: '', forwardedFor: '', problem: 'no_address' }
}

interface HeaderSlot {
  readonly attribute: string
  readonly slot: number
  readonly open: boolean
}

/** The identity before its token is verified. */
interface IdentityDraft {
  readonly attributes: Record<string, string>
  user: string | undefined
  plan: string | undefined
  problem: IdentityProblem | undefined
}

class RequestIdentifier implements Identifier {
  readonly #options: IdentifierOptions
  readonly #secretKey: SipKey
  readonly #keys: KnownKeys
  readonly #tokens: TokenVerifier | undefined
  readonly #reader: HeaderReader
  readonly #slots: Slots
  readonly #problems: Record<IdentityProblem, number> = {
    no_address: 0,
    ambiguous_header: 0,
    unknown_key: 0,
    disabled_key: 0,
    invalid_token: 0,
    expired_token: 0,
    token_failures: 0,
    unverified_token: 0,
  }
  #ignoredForwarded = 0

  constructor(options: IdentifierOptions) {
    const { config, secret, tokens, forwardedHeader, registered } = options
    const names: string[] = []
    this.#options = options
    this.#secretKey = maskingKey(secret)
    this.#keys = new KnownKeys(config.keys, registered)
    this.#tokens = tokens
    this.#slots = assignSlots(config, tokens !== undefined, names)
    this.#reader = new HeaderReader(names, forwardedHeader)
  }

  identify(request: IdentifiableRequest, withinMs?: number): Identity | Promise<Identity> {
    const { values, lines } = this.#reader.read(request.rawHeaders)
    const origin = findClientOrigin(this.#options, request.socket.remoteAddress, lines)
    if (origin === undefined) {
      this.#problems.no_address++
      return noIdentity()
    }
    if (origin.ignored) this.#ignoredForwarded++
    const draft: IdentityDraft = {
      attributes: { ip: origin.ip },
      user: undefined,
      plan: undefined,
      problem: undefined,
    }
    this.findAmbiguity(draft, values, origin)
    this.readHeaders(draft, values)
    this.readKey(draft, values)
    // A key that names a user decides the identity; a token beside it is left to the upstream.
    const token = draft.user === undefined ? this.tokenOf(values) : undefined
    if (token === undefined || this.#tokens === undefined) {
      return this.finish(draft, values, origin, undefined)
    }
    const verdict = this.#tokens.verify(token, origin.ip, withinMs)
    return verdict instanceof Promise
      ? verdict.then((later) => this.finish(draft, values, origin, later))
      : this.finish(draft, values, origin, verdict)
  }

  async reload(): Promise<void> {
    await this.#tokens?.reload()
  }

  stats(): IdentityStats {
    return {
      problems: { ...this.#problems },
      ignoredForwarded: this.#ignoredForwarded,
      tokens: this.#tokens?.stats(),
    }
  }

  async close(): Promise<void> {
    await this.#tokens?.close()
  }

  /** Ignores proxy headers of other senders. */
  private findAmbiguity(
    draft: IdentityDraft,
    values: readonly HeaderValue[],
    { trusted }: ClientOrigin,
  ): void {
    const { user, plan, priority } = this.#slots
    const isOfProxy = (slot: number) => slot === user || slot === plan || slot === priority
    for (let slot = 0; slot < values.length; slot++) {
      if (values[slot] !== DUPLICATED || (!trusted && isOfProxy(slot))) continue
      return this.recordProblem(draft, 'ambiguous_header')
    }
  }

  private readHeaders({ attributes }: IdentityDraft, values: readonly HeaderValue[]): void {
    for (const { attribute, slot, open } of this.#slots.headers) {
      const value = textAt(values, slot)
      if (value === undefined) continue
      // A value that is too long is not masked: the limiter refuses the call.
      const isShown = open || value.length > ATTRIBUTE_LENGTH_MAX
      attributes[attribute] = isShown ? value : maskValue(this.#secretKey, attribute, value)
    }
  }

  private readKey(draft: IdentityDraft, values: readonly HeaderValue[]): void {
    const key = this.keyOf(values)
    if (key === undefined) return
    const known = this.#keys.find(key)
    if (known?.state !== 'active') {
      this.recordProblem(draft, known === undefined ? 'unknown_key' : 'disabled_key')
      return
    }
    known.maskedValue ??= maskValue(this.#secretKey, 'api_key', key)
    draft.attributes.api_key = known.maskedValue
    draft.user = known.user
    draft.plan = known.plan
  }

  private finish(
    draft: IdentityDraft,
    values: readonly HeaderValue[],
    origin: ClientOrigin,
    verdict: TokenUser | TokenProblem | undefined,
  ): Identity {
    const { attributes } = draft
    if (typeof verdict === 'string') this.recordProblem(draft, verdict)
    const token = typeof verdict === 'object' ? verdict : undefined
    const { trusted, peer, forwardedFor } = origin
    const slots = this.#slots
    const user = draft.user ?? token?.user ?? (trusted ? textAt(values, slots.user) : undefined)
    const plan = draft.plan ?? token?.plan ?? (trusted ? textAt(values, slots.plan) : undefined)
    if (user !== undefined) attributes.user = user
    if (plan !== undefined) attributes.plan = plan
    const priority = trusted ? textAt(values, slots.priority) : undefined
    if (priority !== undefined) attributes.priority = priority
    return { attributes, trusted, peer, forwardedFor, problem: draft.problem }
  }

  private keyOf(values: readonly HeaderValue[]): string | undefined {
    const { key, isKeyBearer } = this.#slots
    const sent = textAt(values, key)
    return sent !== undefined && isKeyBearer ? bearerToken(sent) : sent
  }

  private tokenOf(values: readonly HeaderValue[]): string | undefined {
    const sent = textAt(values, this.#slots.token)
    return sent === undefined ? undefined : bearerToken(sent)
  }

  /** Counts each problem; the call keeps its first. */
  private recordProblem(draft: IdentityDraft, problem: IdentityProblem): void {
    this.#problems[problem]++
    draft.problem ??= problem
  }
}

/** The index of each header among those read; -1 if it is not read. */
interface Slots {
  readonly key: number
  /** Keys come as `Bearer <key>`. */
  readonly isKeyBearer: boolean
  readonly token: number
  readonly user: number
  readonly plan: number
  readonly priority: number
  readonly headers: readonly HeaderSlot[]
}

/** Fills `names` with the headers to read. */
function assignSlots(config: IdentityConfig, readsTokens: boolean, names: string[]): Slots {
  const assign = (header: string | undefined): number => {
    return header === undefined ? -1 : names.push(header.toLowerCase()) - 1
  }
  return {
    key: assign(config.apiKey.header),
    isKeyBearer: config.apiKey.header.toLowerCase() === 'authorization',
    token: assign(readsTokens ? config.jwt?.header : undefined),
    user: assign(config.proxyHeaders.user),
    plan: assign(config.proxyHeaders.plan),
    priority: assign(config.proxyHeaders.priority),
    headers: config.headers.map(({ attribute, header, open }) => {
      return { attribute, slot: assign(header), open }
    }),
  }
}

/** Undefined for an empty header, and for one that was sent twice. */
function textAt(values: readonly HeaderValue[], slot: number): string | undefined {
  const value = values[slot]
  return typeof value === 'string' && value !== '' ? value : undefined
}
