/** The quota service over real counters, in a time of its own, and proxies that behave as Envoy. */
import type { Call, Decision } from '@sluice/core'
import { createLimiter, type Limiter, memoryStore, type Store } from '@sluice/limiter'
import { manualClock } from '@sluice/limiter/testing'
import { createDecider } from '../../../decide.js'
import { createSecretMasker } from '../../../identity/masked-value.js'
import {
  type ManualScheduler,
  manualScheduler,
  settle,
} from '../../../lib/manual-scheduler.test-helper.js'
import { createRegistry, type Registry } from '../../../observability/metrics/registry.js'
import type { StreamHandler } from '../grpc/grpc-js-server.js'
import { officialMessage } from '../protobuf/official-protos.test-helper.js'
import { QuotaService, type QuotaServiceDeps, type QuotaServiceOptions } from './quota-service.js'

const REPORTS = officialMessage('envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports')
const RESPONSE = officialMessage('envoy.service.rate_limit_quota.v3.RateLimitQuotaResponse')
const SECRET = Uint8Array.from({ length: 16 }, (_, i) => i)

/** Where every window whose length divides a day starts. */
const START_US = manualClock().now()

export interface OpenQuotasOptions extends Partial<QuotaServiceOptions> {
  readonly rules: readonly object[]
  readonly configSource?: QuotaServiceDeps['configSource']
  readonly makeStore?: (clock: { now(): number }) => Store | Promise<Store>
  readonly fleetSize?: number
  readonly scheduler?: ManualScheduler
}

export interface OpenQuotas {
  readonly service: QuotaService
  readonly limiter: Limiter
  readonly scheduler: ManualScheduler
  readonly registry: Registry
  readonly errors: unknown[]
  readonly decisions: { readonly decision: Decision; readonly call: Call }[]
  /** The value of a metric of quotas; 0 if it has no series. */
  readonly metric: (name: string) => number
  readonly connect: (options?: ProxyOptions) => TestProxy
  readonly close: () => Promise<void>
}

export async function openQuotas(options: OpenQuotasOptions): Promise<OpenQuotas> {
  const { rules, configSource, makeStore, fleetSize = 1 } = options
  const scheduler = neverStill(options.scheduler ?? manualScheduler())
  const clock = { now: () => START_US + Math.floor(scheduler.nowMs() * 1000) }
  const store = (await makeStore?.(clock)) ?? memoryStore({ clock })
  const nowMs = () => scheduler.nowMs()
  const limiter = createLimiter({
    rules: [...rules],
    store,
    clock,
    secret: SECRET,
    monotonicMs: nowMs,
    scheduler,
  })
  await limiter.ready()
  const registry = createRegistry()
  const decisions: { decision: Decision; call: Call }[] = []
  const decider = createDecider({
    limiter,
    metrics: { count: () => {} },
    observability: { onDecision: (decision, call) => void decisions.push({ decision, call }) },
    refusals: { logRefusal: () => {}, logShadowRefusal: () => {} },
    degraded: { onDecision: () => {} },
    times: { observe: () => {} },
    nowMs,
  })
  const errors: unknown[] = []
  const service = new QuotaService(
    {
      decider,
      configSource,
      registry,
      scheduler,
      mask: createSecretMasker(SECRET, []),
      fleetSize: () => fleetSize,
      onError: (error) => void errors.push(error),
    },
    {
      domains: options.domains ?? new Map(),
      isShadow: options.isShadow ?? false,
      maxBuckets: options.maxBuckets,
    },
  )
  const metric = (name: string) => {
    const line = registry
      .text()
      .split('\n')
      .find((each) => each.startsWith(`sluice_rlqs_${name} `))
    return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(' ') + 1))
  }
  return {
    service,
    limiter,
    scheduler,
    registry,
    errors,
    decisions,
    metric,
    connect: (proxy = {}) => new TestProxy(service, scheduler, proxy),
    close: async () => {
      service.endStreams()
      await settle()
      await limiter.close()
    },
  }
}

/** A real clock has moved on whenever it is read again. */
function neverStill(scheduler: ManualScheduler): ManualScheduler {
  let reads = 0
  return { ...scheduler, nowMs: () => scheduler.nowMs() + 1e-6 * ++reads }
}

export type BucketName = Readonly<Record<string, string>>

export interface ProxyOptions {
  readonly domain?: string
  /** What it does before an assignment, and after one has expired. @default allow */
  readonly fallback?: 'allow' | 'deny'
  /** How long messages are on their way. @default 0 */
  readonly delayMs?: number
}

interface OfficialResponse {
  readonly bucket_action: readonly {
    readonly bucket_id: { readonly bucket: BucketName }
    readonly quota_assignment_action?: {
      readonly assignment_time_to_live: { readonly seconds: number }
      readonly rate_limit_strategy: OfficialStrategy
    }
  }[]
}

export interface OfficialStrategy {
  readonly blanket_rule?: 'ALLOW_ALL' | 'DENY_ALL'
  /** Null or absent: it has none. */
  readonly token_bucket?: {
    readonly max_tokens: number
    readonly tokens_per_fill: { readonly value: number }
    readonly fill_interval: { readonly seconds: number; readonly nanos: number }
  } | null
}

/** A bucket as Envoy keeps it. */
interface ProxyBucket {
  readonly id: BucketName
  allowed: number
  denied: number
  strategy: OfficialStrategy | undefined
  expiresMs: number
  tokens: number
}

/** A proxy that behaves as Envoy 1.40 does, and whose streams end when a test says it. */
export class TestProxy {
  readonly #service: QuotaService
  readonly #scheduler: ManualScheduler
  readonly #options: ProxyOptions
  readonly #buckets = new Map<string, ProxyBucket>()
  #handler: StreamHandler | undefined
  /** When the stream was opened: what is on its way to an older one is lost. */
  #generation = 0
  /** The error with which the server has ended the stream, or `ended`. */
  ended: unknown
  readonly responses: OfficialResponse[] = []
  /** When each call was allowed. */
  readonly allowedAtMs: number[] = []

  constructor(service: QuotaService, scheduler: ManualScheduler, options: ProxyOptions) {
    this.#service = service
    this.#scheduler = scheduler
    this.#options = options
    this.connect()
  }

  connect(): void {
    const generation = ++this.#generation
    const isCurrent = () => generation === this.#generation
    this.ended = undefined
    const handler: StreamHandler = this.#service.open({
      send: (message) => {
        this.later(() => isCurrent() && this.receive(message))
        return true
      },
      end: (error) => {
        if (isCurrent()) {
          this.ended = error ?? 'ended'
          this.#handler = undefined
        }
        handler.onEnd?.()
      },
    })
    this.#handler = handler
  }

  /** Loses the stream without a word. */
  disconnect(): void {
    this.#generation++
    this.#handler?.onEnd?.()
    this.#handler = undefined
  }

  get isConnected(): boolean {
    return this.#handler !== undefined
  }

  has(id: BucketName): boolean {
    return this.#buckets.has(nameOf(id))
  }

  strategyOf(id: BucketName): OfficialStrategy | undefined {
    const bucket = this.#buckets.get(nameOf(id))
    return bucket === undefined ? undefined : this.activeOf(bucket)
  }

  /** The calls that it may admit by its lease. */
  tokensOf(id: BucketName): number {
    return this.#buckets.get(nameOf(id))?.tokens ?? 0
  }

  /** Decides one call; whether it is allowed. */
  call(id: BucketName): boolean {
    const name = nameOf(id)
    let bucket = this.#buckets.get(name)
    const isNew = bucket === undefined
    if (bucket === undefined) {
      bucket = { id, allowed: 0, denied: 0, strategy: undefined, expiresMs: 0, tokens: 0 }
      this.#buckets.set(name, bucket)
    }
    const isAllowed = this.decide(bucket)
    if (isAllowed) {
      bucket.allowed++
      this.allowedAtMs.push(this.#scheduler.nowMs())
    } else bucket.denied++
    if (isNew) this.send([bucket])
    return isAllowed
  }

  calls(id: BucketName, count: number): number {
    let allowed = 0
    for (let i = 0; i < count; i++) if (this.call(id)) allowed++
    return allowed
  }

  /** Reports all buckets, as its timer does. */
  report(): void {
    if (this.#buckets.size > 0) this.send([...this.#buckets.values()])
  }

  private decide(bucket: ProxyBucket): boolean {
    const strategy = this.activeOf(bucket)
    if (strategy === undefined) return this.#options.fallback !== 'deny'
    if (!strategy.token_bucket) return strategy.blanket_rule === 'ALLOW_ALL'
    if (bucket.tokens === 0) return false
    bucket.tokens--
    return true
  }

  private activeOf({ strategy, expiresMs }: ProxyBucket): OfficialStrategy | undefined {
    return this.#scheduler.nowMs() < expiresMs ? strategy : undefined
  }

  private send(buckets: readonly ProxyBucket[]): void {
    const message = REPORTS.encode({
      domain: this.#options.domain ?? 'shop',
      bucket_quota_usages: buckets.map(({ id, allowed, denied }) => ({
        bucket_id: { bucket: id },
        time_elapsed: { seconds: 1, nanos: 0 },
        num_requests_allowed: allowed,
        num_requests_denied: denied,
      })),
    })
    for (const bucket of buckets) {
      bucket.allowed = 0
      bucket.denied = 0
    }
    const handler = this.#handler
    this.later(() => {
      if (handler !== this.#handler) return
      try {
        handler?.onMessage(message)
      } catch (error) {
        this.ended = error
        this.#handler = undefined
        handler?.onEnd?.()
      }
    })
  }

  private receive(message: Uint8Array): void {
    const response = RESPONSE.decode(message) as OfficialResponse
    this.responses.push(response)
    for (const action of response.bucket_action) {
      const name = nameOf(action.bucket_id.bucket)
      const bucket = this.#buckets.get(name)
      if (bucket === undefined) continue
      const assigned = action.quota_assignment_action
      if (!assigned) {
        this.#buckets.delete(name)
        continue
      }
      const { rate_limit_strategy: strategy, assignment_time_to_live: ttl } = assigned
      const tokens = strategy.token_bucket?.max_tokens
      if (tokens === undefined) bucket.tokens = 0
      else bucket.tokens = tokensAfter(bucket, this.activeOf(bucket), strategy)
      bucket.strategy = strategy
      bucket.expiresMs = this.#scheduler.nowMs() + ttl.seconds * 1000
    }
  }

  private later(run: () => unknown): void {
    const { delayMs = 0 } = this.#options
    if (delayMs === 0) run()
    else this.#scheduler.after(delayMs, () => void run())
  }
}

/** Envoy keeps the tokens of an equal bucket, and else the share that is left of its last one. */
function tokensAfter(
  { tokens }: ProxyBucket,
  active: OfficialStrategy | undefined,
  { token_bucket: next }: OfficialStrategy,
): number {
  const old = active?.token_bucket
  if (!next) return 0
  return !old ? next.max_tokens : Math.floor(next.max_tokens * (tokens / old.max_tokens))
}

function nameOf(id: BucketName): string {
  return JSON.stringify(Object.entries(id).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
