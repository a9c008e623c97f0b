/**
 * Who calls, at the door of every server. Nothing here is taken on a caller's word: an address is
 * the socket's unless a trusted proxy says otherwise, a key must be known, a token signed, and
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

/** What is read of a request; node's IncomingMessage fits. */
export interface IdentifiableRequest {
  readonly rawHeaders: readonly string[]
  readonly socket: { readonly remoteAddress?: string | undefined }
}

export interface Identity {
  /**
   * `ip`, `api_key`, `user`, `plan` and the declared headers; only what is known. Made for this
   * call alone, so that whoever asked may add to it.
   */
  readonly attributes: Record<string, string> & { [CANONICAL_PATH]?: true }
  /** The peer is one of the trusted proxies. */
  readonly trusted: boolean
  /** The peer's address, canonical; empty if it has none. */
  readonly peer: string
  /** What to write as X-Forwarded-For: the client, the hops that were believed, the peer. */
  readonly forwardedFor: string
  /** Why the call has no identity although it claimed one. */
  readonly problem: IdentityProblem | undefined
}

interface IdentityStats {
  /** How often each problem was met since the start. */
  readonly problems: Readonly<Record<IdentityProblem, number>>
  /** Forwarding headers that were not believed. */
  readonly ignoredForwarded: number
  /** Undefined where no tokens are read. */
  readonly tokens: TokenStats | undefined
}

export interface Identifier {
  /**
   * A promise only where a signature has to be verified. Never fails. A token that cannot be
   * verified within `withinMs` is `unverified_token`, and the call goes on without a user.
   * @default 1000
   */
  identify(request: IdentifiableRequest, withinMs?: number): Identity | Promise<Identity>
  /** Reads key files of tokens again; rejects and keeps the keys in force if one is bad. */
  reload(): Promise<void>
  stats(): IdentityStats
  close(): Promise<void>
}

export interface IdentifierOptions extends ClientOriginOptions {
  readonly config: IdentityConfig
  /** The key of all hashes, 16 bytes. */
  readonly secret: Uint8Array
  /** Reads tokens where the configuration has `jwt`. */
  readonly tokens?: TokenVerifier | undefined
  /** Keys of the rule store, beside those of the configuration. */
  readonly registered?: RegisteredKeys | undefined
}

export function createIdentifier(options: IdentifierOptions): Identifier {
  return new RequestIdentifier(options)
}

/** Whose connection is gone before anybody looked. */
function noIdentity(): Identity {
  return { attributes: {}, trusted: false, peer: '', forwardedFor: '', problem: 'no_address' }
}

interface HeaderSlot {
  readonly attribute: string
  readonly slot: number
  readonly open: boolean
}

/** What a call says of itself, before a token was looked at. */
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
    // A key that names a user settles who calls; a token beside it is the upstream's affair.
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

  /** Headers that only proxies may set are not looked at when anybody else sent them. */
  private findAmbiguity(
    draft: IdentityDraft,
    values: readonly HeaderValue[],
    { trusted }: ClientOrigin,
  ): void {
    const { user, plan } = this.#slots
    for (let slot = 0; slot < values.length; slot++) {
      if (values[slot] !== DUPLICATED || (!trusted && (slot === user || slot === plan))) continue
      return this.recordProblem(draft, 'ambiguous_header')
    }
  }

  private readHeaders({ attributes }: IdentityDraft, values: readonly HeaderValue[]): void {
    for (const { attribute, slot, open } of this.#slots.headers) {
      const value = textAt(values, slot)
      if (value === undefined) continue
      // A value that is too long stays what it is: the limiter then refuses the call.
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

  /** Each problem is counted; the call keeps its first. */
  private recordProblem(draft: IdentityDraft, problem: IdentityProblem): void {
    this.#problems[problem]++
    draft.problem ??= problem
  }
}

/** Where each header stands among those read; -1: it is not read. */
interface Slots {
  readonly key: number
  /** Keys come as `Bearer <key>`. */
  readonly isKeyBearer: boolean
  readonly token: number
  readonly user: number
  readonly plan: number
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
    headers: config.headers.map(({ attribute, header, open }) => {
      return { attribute, slot: assign(header), open }
    }),
  }
}

/** An empty header is an absent one, and one that was sent twice says nothing. */
function textAt(values: readonly HeaderValue[], slot: number): string | undefined {
  const value = values[slot]
  return typeof value === 'string' && value !== '' ? value : undefined
}
