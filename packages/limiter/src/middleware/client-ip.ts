/** Finds the address of the client where the options say it is. */
import {
  type Cidr,
  clientAddress,
  formatAddress,
  parseTrustedProxies,
  show,
  SluiceError,
} from '@sluice/core'
import type { AddressSource } from './middleware-options.js'

/** What is read of a request. */
export interface AddressedRequest<Request> {
  readonly request: Request
  /** The request as the runtime passed it, where a framework wraps it. */
  readonly raw: object
  /** What the runtime passes beside the request: the info of Deno, the server of Bun. */
  readonly context: unknown
  /** The address of the socket; undefined where there is none. */
  peer(): string | undefined
  /** Whether the client has left; what remains of its connection is destroyed then. */
  endIfGone(): boolean
  /** The value of a header, its lines joined by commas. The name is in lower case. */
  header(name: string): string | undefined
}

interface AddressOptions<Request> {
  readonly address?: AddressSource | AddressFunction<Request> | undefined
  readonly trustedProxies?: readonly string[] | undefined
}

type AddressFunction<Request> = (request: Request, context: never) => string | undefined

type Source<Request> = AddressSource | ((request: Request, context: unknown) => string | undefined)

/** Headers that a platform sets itself, so that a caller cannot. */
const PLATFORM_HEADERS = { cloudflare: 'cf-connecting-ip', vercel: 'x-real-ip' } as const

/** The sources whose address is that of a peer, which may be a proxy. */
const PEER_SOURCES: readonly unknown[] = ['socket', 'deno', 'bun']

const ACCEPTED = "'socket', 'cloudflare', 'vercel', 'deno', 'bun', or a function"

/** Reads the client's address of each request; undefined if it has none. */
export class ClientIp<Request> {
  readonly #source: Source<Request>
  readonly #trusted: readonly Cidr[]
  /** Whether a forwarding header is not read, which is a mistake behind a proxy. */
  readonly ignoresForwarded: boolean
  readonly isSocket: boolean

  private constructor(source: Source<Request>, trusted: readonly Cidr[]) {
    this.#source = source
    this.#trusted = trusted
    this.isSocket = source === 'socket'
    this.ignoresForwarded = this.isSocket && trusted.length === 0
  }

  /** Undefined if there is no source: nothing is guessed. Throws if an option is invalid. */
  static create<Request>(
    { address, trustedProxies }: AddressOptions<Request>,
    isSocketKnown: boolean,
  ): ClientIp<Request> | undefined {
    const source = address ?? (isSocketKnown ? 'socket' : undefined)
    const trusted = readTrusted(trustedProxies)
    if (trusted.length > 0 && !PEER_SOURCES.includes(source)) {
      throw invalid(
        `trustedProxies: found with ${source === undefined ? 'no address' : `address ${nameOf(source)}`}; ` +
          "accepted: with address 'socket', 'deno' or 'bun', which know the peer",
      )
    }
    if (source === undefined) return undefined
    if (source === 'socket' && !isSocketKnown) {
      throw invalid(
        "address: found 'socket', which this runtime does not show; accepted: " +
          "'cloudflare', 'vercel', 'deno', 'bun', or a function",
      )
    }
    const isFunction = typeof source === 'function'
    if (!isFunction && !PEER_SOURCES.includes(source) && !Object.hasOwn(PLATFORM_HEADERS, source))
      throw invalid(`address: found ${nameOf(source)}; accepted: ${ACCEPTED}`)
    return new ClientIp(source as Source<Request>, trusted)
  }

  read(addressed: AddressedRequest<Request>): string | undefined {
    const source = this.#source
    if (typeof source === 'function') return source(addressed.request, addressed.context)
    switch (source) {
      case 'socket':
        return this.clientOf(addressed.peer(), addressed)
      case 'deno':
        return this.clientOf(denoPeer(addressed.context), addressed)
      case 'bun':
        return this.clientOf(bunPeer(addressed.context, addressed.raw), addressed)
      case 'cloudflare':
      case 'vercel':
        return addressed.header(PLATFORM_HEADERS[source])
    }
  }

  private clientOf(
    peer: string | undefined,
    addressed: AddressedRequest<Request>,
  ): string | undefined {
    if (peer === undefined) return undefined
    const trusted = this.#trusted
    const line = trusted.length === 0 ? undefined : addressed.header('x-forwarded-for')
    // The rules group addresses themselves, by their bits.
    if (line === undefined) return peer
    const found = clientAddress({ peer, trusted, forwardedFor: [line] })
    return found === undefined ? undefined : formatAddress(found.address)
  }
}

function readTrusted(trustedProxies: readonly string[] | undefined): readonly Cidr[] {
  if (trustedProxies === undefined) return []
  if (!Array.isArray(trustedProxies) || trustedProxies.some((text) => typeof text !== 'string')) {
    throw invalid(`trustedProxies: found ${show(trustedProxies)}; accepted: a list of networks`)
  }
  const { cidrs, problems } = parseTrustedProxies(trustedProxies)
  const [problem] = problems
  if (problem !== undefined) throw invalid(`trustedProxies: ${problem}`)
  return cidrs
}

/** `info.remoteAddr.hostname` of `Deno.serve`. */
function denoPeer(context: unknown): string | undefined {
  const info = context as { remoteAddr?: { hostname?: unknown } } | null | undefined
  return textOf(info?.remoteAddr?.hostname)
}

/** `server.requestIP(request).address` of `Bun.serve`. */
function bunPeer(context: unknown, request: object): string | undefined {
  const server = context as BunServer | { server?: BunServer } | null | undefined
  const bun = server !== null && server !== undefined && 'server' in server ? server.server : server
  return textOf((bun as BunServer | undefined)?.requestIP?.(request)?.address)
}

interface BunServer {
  requestIP?(request: object): { readonly address?: unknown } | null
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function nameOf(source: unknown): string {
  return typeof source === 'function' ? 'a function' : `'${show(source)}'`
}

function invalid(message: string): SluiceError {
  return new SluiceError('OPTION_INVALID', message)
}
