/**
 * Envoy's rate limit quota service: proxies decide calls by themselves, by leases that are drawn
 * from the limits here, and report what they did. See docs/decisions/0041 for what that promises.
 */
import type { Decider, ReportedCalls } from '../../../decide.js'
import type { Scheduler } from '../../../lib/scheduler.js'
import type { Registry } from '../../../observability/metrics/registry.js'
import type { EnvoyConfigSource } from '../config/config-source.js'
import type { StreamClient, StreamHandler } from '../grpc/grpc-js-server.js'
import { GRPC_CODES, GrpcError } from '../grpc-error.js'
import type { MaskSecrets } from '../reported-call.js'
import type { DomainOptions } from '../service-options.js'
import { TICK_MS } from './quota-bucket.js'
import { QuotaMetrics, type QuotaSizes } from './quota-metrics.js'
import { QuotaStream, type QuotaStreamDeps } from './quota-stream.js'
import { SlicedWork } from './sliced-work.js'

/** One for each filter configuration of each proxy. */
export const STREAMS_MAX = 1000
/** The buckets of all streams: each has about two kilobytes, and one draw at a time. */
const BUCKETS_MAX = 100_000

export interface QuotaServiceDeps {
  readonly decider: Decider
  /** Domains with a configuration have no quotas. */
  readonly configSource: Pick<EnvoyConfigSource, 'current'> | undefined
  readonly registry: Registry
  readonly scheduler: Scheduler
  readonly mask: MaskSecrets
  /** The live nodes that share the counters. */
  readonly fleetSize: () => number
  readonly onError: (error: unknown) => void
}

export interface QuotaServiceOptions {
  readonly domains: ReadonlyMap<string, DomainOptions>
  readonly isShadow: boolean
  /** For tests. @default 100,000 */
  readonly maxBuckets?: number | undefined
}

export class QuotaService {
  readonly #deps: QuotaServiceDeps
  readonly #streams = new Set<QuotaStream>()
  /** How many streams have each bucket. */
  readonly #subscribers = new Map<string, number>()
  /** How many buckets share each counter. */
  readonly #sharers = new Map<string, number>()
  readonly #streamDeps: QuotaStreamDeps
  readonly #maxBuckets: number
  #buckets = 0
  #stopTicking: (() => void) | undefined

  constructor(deps: QuotaServiceDeps, options: QuotaServiceOptions) {
    const { domains, isShadow, maxBuckets = BUCKETS_MAX } = options
    const { decider, registry, scheduler, mask, onError } = deps
    this.#deps = deps
    this.#maxBuckets = maxBuckets
    const planned = decider.planned('envoy')
    this.#streamDeps = {
      metrics: new QuotaMetrics(registry, () => this.sizes()),
      work: new SlicedWork(),
      mask,
      nowMs: () => scheduler.nowMs(),
      decide: async (calls: ReportedCalls) => {
        const { postures } = await planned(calls, {})
        return { isByPosture: postures !== undefined }
      },
      requireMatch: (domain) => domains.get(domain)?.requireMatch === true,
      isShadow,
      requireDomain: (domain) => this.requireDomain(domain),
      addBucket: (name) => this.addBucket(name),
      removeBucket: (name) => this.removeBucket(name),
      proxiesOf: (name) => this.proxiesOf(name),
      sharersOf: (counter, isCounted) => this.sharersOf(counter, isCounted),
      nodes: () => this.nodes(),
      moveCounters: (from, to) => {
        for (const counter of to) addTo(this.#sharers, counter, 1)
        for (const counter of from) addTo(this.#sharers, counter, -1)
      },
      onError,
      onEnd: (stream) => this.removeStream(stream),
    }
  }

  open(client: StreamClient): StreamHandler {
    if (this.#streams.size >= STREAMS_MAX) {
      throw new GrpcError(GRPC_CODES.resourceExhausted, `more than ${STREAMS_MAX} streams are open`)
    }
    const stream = new QuotaStream(client, this.#streamDeps)
    this.#streams.add(stream)
    this.tickLater()
    return stream
  }

  /** Ends all streams. What their proxies hold stays charged. */
  endStreams(): void {
    for (const stream of this.#streams) stream.end()
  }

  private sizes(): QuotaSizes {
    let held = 0
    for (const stream of this.#streams) held += stream.held
    return { streams: this.#streams.size, buckets: this.#buckets, held }
  }

  private requireDomain(domain: string): void {
    const { configSource } = this.#deps
    if (configSource?.current()?.domains.has(domain) !== true) return
    throw new GrpcError(
      GRPC_CODES.failedPrecondition,
      'this domain is decided by its envoyproxy/ratelimit configuration, which selects limits by ' +
        'the order of entries; the entries of a bucket have none: use another domain for quotas',
    )
  }

  private addBucket(name: string): boolean {
    if (this.#buckets >= this.#maxBuckets) return false
    this.#buckets += 1
    addTo(this.#subscribers, name, 1)
    return true
  }

  private removeBucket(name: string): void {
    this.#buckets -= 1
    addTo(this.#subscribers, name, -1)
  }

  private proxiesOf(name: string): number {
    return Math.max(1, this.#subscribers.get(name) ?? 1)
  }

  private sharersOf(counter: string, isCounted: boolean): number {
    return (this.#sharers.get(counter) ?? 0) + (isCounted ? 0 : 1)
  }

  private nodes(): number {
    return Math.max(1, Math.floor(this.#deps.fleetSize()) || 1)
  }

  private removeStream(stream: QuotaStream): void {
    this.#streams.delete(stream)
    if (this.#streams.size > 0) return
    this.#stopTicking?.()
    this.#stopTicking = undefined
  }

  /** One timer for all streams, and none if there are none. */
  private tickLater(): void {
    this.#stopTicking ??= this.#deps.scheduler.after(TICK_MS, () => {
      this.#stopTicking = undefined
      // A busy process looks less often.
      if (!this.#streamDeps.work.isBusy) for (const stream of this.#streams) stream.tick()
      if (this.#streams.size > 0) this.tickLater()
    })
  }
}

/** Counts a name up or down; one at 0 is removed. */
function addTo(counts: Map<string, number>, name: string, change: 1 | -1): void {
  const count = (counts.get(name) ?? 0) + change
  if (count > 0) counts.set(name, count)
  else counts.delete(name)
}
