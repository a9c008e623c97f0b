/**
 * grpc.health.v1: whether this node serves. It follows readiness, which is about rules and shutdown
 * alone: a node without its store decides by posture, and so it serves.
 */
import { GRPC_CODES, GrpcError } from '../grpc-error.js'
import {
  decodeHealthRequest,
  encodeHealthResponse,
  HEALTH,
  type Health,
} from '../protobuf/health-codec.js'
import { RATE_LIMIT_SERVICE } from './grpc-service.js'

/** Names that clients use for this server; all have the same health. */
const SERVICES: ReadonlySet<string> = new Set([
  // The whole server.
  '',
  // What envoyproxy/ratelimit calls itself.
  'ratelimit',
  RATE_LIMIT_SERVICE,
])

/** How often readiness is read for clients that watch it. */
export const WATCH_EVERY_MS = 1000
/** Each is a stream that stays open. Few clients watch, and each watches once. */
export const WATCHERS_MAX = 1000

export interface HealthServiceOptions {
  readonly isReady: () => boolean
  /** Runs a function repeatedly until the returned one is called. */
  readonly every?: (ms: number, run: () => void) => () => void
}

export interface HealthWatcher {
  /** Receives a response now, and whenever the health changes. */
  send(response: Buffer): void
  /** Called when the server stops. */
  end(): void
}

interface Watching {
  readonly watcher: HealthWatcher
  readonly isKnown: boolean
  sent: Health
}

export class HealthService {
  readonly #isReady: () => boolean
  readonly #every: NonNullable<HealthServiceOptions['every']>
  readonly #watching = new Set<Watching>()
  #stopPolling: (() => void) | undefined
  #isDraining = false

  constructor({ isReady, every = everyMs }: HealthServiceOptions) {
    this.#isReady = isReady
    this.#every = every
  }

  /** Answers one request; NOT_FOUND for a service that is not one of this server. */
  check(message: Uint8Array): Buffer {
    const name = decodeHealthRequest(message)
    if (!SERVICES.has(name)) throw new GrpcError(GRPC_CODES.notFound, 'unknown service')
    return encodeHealthResponse(this.health())
  }

  /** Begins to watch, also an unknown service, as clients expect; returns the end of it. */
  watch(message: Uint8Array, watcher: HealthWatcher): () => void {
    const name = decodeHealthRequest(message)
    if (this.#watching.size >= WATCHERS_MAX) {
      throw new GrpcError(GRPC_CODES.resourceExhausted, 'too many clients watch the health')
    }
    const isKnown = SERVICES.has(name)
    const watching = { watcher, isKnown, sent: isKnown ? this.health() : HEALTH.serviceUnknown }
    this.#watching.add(watching)
    this.#stopPolling ??= this.#every(WATCH_EVERY_MS, () => this.poll())
    watcher.send(encodeHealthResponse(watching.sent))
    return () => this.remove(watching)
  }

  /** From now on this server does not serve, whatever readiness says. */
  beginDraining(): void {
    this.#isDraining = true
    this.poll()
  }

  /** Ends all watches. */
  endWatches(): void {
    for (const watching of this.#watching) {
      this.remove(watching)
      watching.watcher.end()
    }
  }

  private health(): Health {
    return !this.#isDraining && this.#isReady() ? HEALTH.serving : HEALTH.notServing
  }

  private poll(): void {
    const health = this.health()
    for (const watching of this.#watching) {
      if (!watching.isKnown || watching.sent === health) continue
      watching.sent = health
      watching.watcher.send(encodeHealthResponse(health))
    }
  }

  private remove(watching: Watching): void {
    this.#watching.delete(watching)
    if (this.#watching.size > 0) return
    this.#stopPolling?.()
    this.#stopPolling = undefined
  }
}

function everyMs(ms: number, run: () => void): () => void {
  const timer = setInterval(run, ms).unref()
  return () => clearInterval(timer)
}
