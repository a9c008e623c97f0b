/** One stream: the buckets of one proxy, their reports and their assignments. */
import { type Call, SluiceError } from '@sluice/core'
import { GRPC_CODES, GrpcError } from '../grpc-error.js'
import { attributesOf } from '../native-attributes.js'
import type { MaskSecrets } from '../reported-call.js'
import type { ReportedCalls } from '../../../decide.js'
import { decodeUsageReports, encodeQuotaResponse } from '../protobuf/quota-codec.js'
import type { StreamClient, StreamHandler } from '../grpc/grpc-js-server.js'
import { type LeaseBounds, QuotaBucket, TTL_SECONDS } from './quota-bucket.js'
import {
  CALLS_MAX,
  type Draw,
  type DrawResult,
  LeaseCall,
  type LeaseOptions,
  ReturnCall,
  UsageCall,
} from './quota-draw.js'
import type { BucketAction, BucketId, BucketUsage, Strategy } from './quota-messages.js'
import type { QuotaMetrics } from './quota-metrics.js'
import type { SlicedWork } from './sliced-work.js'

/** What all streams of a service share. */
export interface QuotaStreamDeps {
  readonly metrics: QuotaMetrics
  /** Runs what is to be done for each bucket. */
  readonly work: SlicedWork
  readonly mask: MaskSecrets
  /** Milliseconds of a clock that never steps. */
  readonly nowMs: () => number
  /** Decides calls. Rejects or throws where nothing can be decided. */
  readonly decide: (calls: ReportedCalls) => ReturnType<DecideQuota>
  /** Whether a bucket that no rule matches is refused. */
  readonly requireMatch: (domain: string) => boolean
  /** Whether nothing is refused: rules count what is reported. */
  readonly isShadow: boolean
  /** Throws if the domain has no quotas. */
  readonly requireDomain: (domain: string) => void
  /** Counts a bucket; false if there are too many. */
  readonly addBucket: (name: string) => boolean
  readonly removeBucket: (name: string) => void
  /** The streams that have a bucket. */
  readonly proxiesOf: (name: string) => number
  /** The buckets that share a counter; `isCounted`: the one that asks is among them. */
  readonly sharersOf: (counter: string, isCounted: boolean) => number
  /** The live nodes. */
  readonly nodes: () => number
  readonly moveCounters: (from: readonly string[], to: readonly string[]) => void
  readonly onError: (error: unknown) => void
  readonly onEnd: (stream: QuotaStream) => void
}

/** Whether the decision was made without the store. */
type DecideQuota = (calls: ReportedCalls) => Promise<{ readonly isByPosture: boolean }>

const ALLOW: Strategy = { kind: 'allow' }
const DENY: Strategy = { kind: 'deny' }
const NO_LIMIT: DrawResult = { kind: 'unlimited', isMatched: true }
/** The buckets of one proxy, and the length of their names: all are in each of its reports. */
const BUCKETS_MAX = 5000
const NAME_LENGTH_MAX = 256 * 1024
/** With more waiting work, calls of buckets that are not kept are not charged. */
const WAITING_MAX = 100_000
/** A refused draw is tried again once, with what the limits said they have left. */
const TRIES = 2

export class QuotaStream implements StreamHandler {
  readonly #deps: QuotaStreamDeps
  readonly #client: StreamClient
  readonly #buckets = new Map<string, QuotaBucket>()
  #nameLength = 0
  #domain: string | undefined
  /** What is to be sent, the latest for each bucket. */
  readonly #pending = new Map<string, BucketAction>()
  #isSending = false
  #isBlocked = false
  #isEnded = false

  constructor(client: StreamClient, deps: QuotaStreamDeps) {
    this.#client = client
    this.#deps = deps
  }

  get buckets(): number {
    return this.#buckets.size
  }

  get held(): number {
    let held = 0
    for (const bucket of this.#buckets.values()) held += bucket.held
    return held
  }

  onMessage(message: Uint8Array): void {
    const { domain, usages } = decodeUsageReports(message)
    if (this.#domain === undefined) {
      if (domain === '') throw invalid('domain: found none; accepted: a text in the first report')
      this.#deps.requireDomain(domain)
      this.#domain = domain
    } else if (domain !== '' && domain !== this.#domain) {
      throw invalid('domain: found another one; accepted: one domain for each stream')
    }
    for (const usage of usages) this.onUsage(usage)
  }

  onDrained(): void {
    this.#isBlocked = false
    this.sendLater()
    this.tick()
  }

  /** What proxies hold stays charged: nothing says what they spent, or will spend until it ends. */
  onEnd(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    const { metrics, removeBucket } = this.#deps
    for (const [name, bucket] of this.#buckets) {
      for (const { left } of bucket.close()) metrics.lost.inc(left)
      this.setCounters(bucket, [])
      removeBucket(name)
    }
    this.#buckets.clear()
    this.#pending.clear()
    this.#deps.onEnd(this)
  }

  /** Ends the stream; the proxy opens another one, by then perhaps on another node. */
  end(): void {
    this.#client.end()
  }

  /** Renews what is over soon, and draws what will not last. */
  tick(): void {
    for (const [name, bucket] of this.#buckets) this.careLater(name, bucket)
  }

  /** However many reports come before it is its turn, there is one piece of work for a bucket. */
  private careLater(name: string, bucket: QuotaBucket): void {
    if (bucket.isQueued) return
    bucket.isQueued = true
    const { work, nowMs } = this.#deps
    work.add(() => {
      bucket.isQueued = false
      this.charge(bucket)
      for (const draw of bucket.takeReturnable()) this.giveBack(draw)
      // What is decided for a client that does not read would be old when it arrives.
      if (bucket.isClosed || this.#isBlocked) return
      const now = nowMs()
      if (bucket.isIdle(now)) this.abandon(name, bucket)
      else this.care(name, bucket, now)
    })
  }

  private onUsage(usage: BucketUsage): void {
    const { metrics, nowMs } = this.#deps
    const now = nowMs()
    const { bucket: id, isAssignable, allowed, denied } = usage
    metrics.allowed.inc(allowed)
    metrics.denied.inc(denied)
    const name = JSON.stringify([this.#domain, id.map(({ key, value }) => [key, value])])
    const known = isAssignable ? this.#buckets.get(name) : undefined
    const bucket = known ?? (isAssignable ? this.addBucket(name, id, now) : undefined)
    if (bucket === undefined) return this.refuseBucket(name, usage)
    const { spent, beyond } = bucket.report(allowed, denied, now, known === undefined)
    metrics.spent.inc(spent)
    metrics.beyond.inc(beyond)
    this.careLater(name, bucket)
  }

  /** Undefined if there are too many, of this proxy or of all. */
  private addBucket(name: string, id: BucketId, nowMs: number): QuotaBucket | undefined {
    const hasRoom =
      this.#buckets.size < BUCKETS_MAX && this.#nameLength + name.length <= NAME_LENGTH_MAX
    if (!hasRoom || !this.#deps.addBucket(name)) return undefined
    const bucket = new QuotaBucket(id, nowMs)
    this.#buckets.set(name, bucket)
    this.#nameLength += name.length
    return bucket
  }

  private removeBucket(name: string): void {
    this.#buckets.delete(name)
    this.#nameLength -= name.length
    this.#deps.removeBucket(name)
  }

  /**
   * Counts the calls of a bucket that is not kept. Its proxy forgets it, or it would report more
   * and more of them, until no report could be read.
   */
  private refuseBucket(name: string, { bucket: id, isAssignable, allowed }: BucketUsage): void {
    const { metrics } = this.#deps
    metrics.bucketsRefused.inc()
    const { work } = this.#deps
    if (allowed > 0 && work.waiting < WAITING_MAX) {
      metrics.beyond.inc(allowed)
      const charge = () => this.#deps.decide(new UsageCall(this.callOf(id, allowed)))
      work.add(() => this.run(charge))
    }
    if (isAssignable) this.sendAbandon(name, id)
  }

  /** Charges what was spent beyond leases, one request for a bucket at a time. */
  private charge(bucket: QuotaBucket): void {
    const calls = bucket.takeUnpaid()
    if (calls === 0) return
    this.run(
      () => this.#deps.decide(new UsageCall(this.callOf(bucket.id, calls))),
      () => {
        bucket.isCharging = false
        this.charge(bucket)
      },
    )
  }

  private care(name: string, bucket: QuotaBucket, nowMs: number): void {
    if (bucket.hasLapsed(nowMs)) this.send(name, bucket, bucket.assign(DENY, nowMs))
    this.assignDrawn(name, bucket, nowMs)
    if (bucket.needsDraw(nowMs)) {
      bucket.isDrawing = true
      const done = () => (bucket.isDrawing = false)
      this.run(() => this.draw(name, bucket), done)
    }
    const renewed = bucket.renew(nowMs)
    if (renewed !== undefined) this.send(name, bucket, renewed, false)
  }

  private abandon(name: string, bucket: QuotaBucket): void {
    this.removeBucket(name)
    this.setCounters(bucket, [])
    for (const draw of bucket.close()) this.giveBack(draw)
    this.sendAbandon(name, bucket.id)
  }

  private sendAbandon(name: string, id: BucketId): void {
    this.#pending.set(name, { kind: 'abandon', bucket: id })
    this.#deps.metrics.assignments.abandon.inc()
    this.sendLater()
  }

  private async draw(name: string, bucket: QuotaBucket): Promise<void> {
    // Nothing is refused, so nothing is drawn: what is reported is counted.
    if (this.#deps.isShadow) return this.apply(name, bucket, NO_LIMIT)
    let wanted = (bounds: LeaseBounds) => bucket.wanted(bounds, this.#deps.nowMs())
    for (let tries = 1; ; tries++) {
      const isLastTry = tries === TRIES
      const result = await this.drawOnce(name, bucket, { wanted, isLastTry })
      if (result.kind !== 'refused' || result.canRetryWith === 0 || isLastTry)
        return this.apply(name, bucket, result)
      const fewer = result.canRetryWith
      wanted = () => fewer
    }
  }

  private async drawOnce(
    name: string,
    bucket: QuotaBucket,
    options: Pick<LeaseOptions, 'wanted' | 'isLastTry'>,
  ): Promise<DrawResult> {
    const { nowMs, decide, proxiesOf, sharersOf, nodes } = this.#deps
    const lease = new LeaseCall(this.callOf(bucket.id, 1), {
      ...options,
      proxies: proxiesOf(name),
      nodes: nodes(),
      sharers: (counter) => sharersOf(counter, bucket.counters.includes(counter)),
      nowMs,
    })
    await decide(lease)
    if (!bucket.isClosed) this.setCounters(bucket, lease.counters)
    if (lease.surplus !== undefined) this.giveBackUnits(lease.surplus)
    return lease.result
  }

  private setCounters(bucket: QuotaBucket, counters: readonly string[]): void {
    this.#deps.moveCounters(bucket.counters, counters)
    bucket.counters = counters
  }

  private apply(name: string, bucket: QuotaBucket, result: DrawResult): void {
    const { metrics, nowMs, requireMatch } = this.#deps
    if (result.kind === 'drawn') metrics.drawn.inc(result.draw.left)
    if (bucket.isClosed) {
      if (result.kind === 'drawn') this.giveBack(result.draw)
      return
    }
    const now = nowMs()
    if (result.kind === 'drawn') {
      for (const draw of bucket.add(result.draw, now)) this.giveBack(draw)
      if (result.isShort) bucket.refuse(0, now)
      return this.assignDrawn(name, bucket, now)
    }
    const isUnmatched = result.kind === 'unlimited' && !result.isMatched
    const isRefused = result.kind === 'refused' || (isUnmatched && requireMatch(this.#domain ?? ''))
    if (!isRefused) {
      this.send(name, bucket, bucket.assign(ALLOW, now))
      return
    }
    bucket.refuse(result.kind === 'refused' ? result.retryMs : null, now)
    // What the proxy holds was drawn, so it may spend it; when that is gone it refuses by itself.
    if (bucket.strategy?.kind === 'lease' && result.kind === 'refused') return
    this.send(name, bucket, bucket.assign(DENY, now))
  }

  private assignDrawn(name: string, bucket: QuotaBucket, nowMs: number): void {
    const strategy = bucket.assignDrawn(nowMs)
    if (strategy !== undefined) this.send(name, bucket, strategy)
  }

  private callOf(id: BucketId, cost: number): Call {
    const attributes = this.#deps.mask(attributesOf(this.#domain ?? '', id))
    return { attributes, cost: Math.min(cost, CALLS_MAX) }
  }

  private giveBack(draw: Draw): void {
    if (draw.left === 0) return
    this.giveBackUnits(draw, draw.left)
  }

  /** `calls` are counted as returned, or as lost if the store does not confirm it. */
  private giveBackUnits(draw: Draw, calls = 0): void {
    const { decide, metrics, nowMs } = this.#deps
    this.run(async () => {
      const returned = new ReturnCall(draw, nowMs())
      const isSent = draw.takes.length > 0 && !returned.isNothing
      const isLost = isSent ? (await decide(returned)).isByPosture : draw.takes.length === 0
      if (isLost) metrics.lost.inc(calls)
      else metrics.returned.inc(calls)
    })
  }

  private send(name: string, { id }: QuotaBucket, strategy: Strategy, isNew = true): void {
    this.#deps.metrics.assignments[strategy.kind].inc()
    const before = this.#pending.get(name)
    this.#pending.set(name, {
      kind: 'assign',
      bucket: id,
      strategy,
      isNew: isNew || (before?.kind === 'assign' && before.isNew),
      ttlSeconds: TTL_SECONDS,
    })
    this.sendLater()
  }

  /** Puts all assignments of one turn into one message. */
  private sendLater(): void {
    if (this.#isSending || this.#isBlocked || this.#pending.size === 0) return
    this.#isSending = true
    queueMicrotask(() => {
      this.#isSending = false
      if (this.#isEnded || this.#isBlocked || this.#pending.size === 0) return
      const message = encodeQuotaResponse([...this.#pending.values()])
      this.#pending.clear()
      this.#isBlocked = !this.#client.send(message)
    })
  }

  /** Runs what nothing waits for. Where there are no rules yet, the next tick tries again. */
  private run(work: () => Promise<unknown>, done?: () => void): void {
    const finished = async () => {
      try {
        await work()
      } catch (error) {
        if (!isExpected(error)) this.#deps.onError(error)
      } finally {
        done?.()
      }
    }
    void finished()
  }
}

/** What the rules do not allow, and rules that are not there yet; anything else is a fault. */
function isExpected(error: unknown): boolean {
  return error instanceof SluiceError && (error.status < 500 || error.status === 503)
}

function invalid(message: string): GrpcError {
  return new GrpcError(GRPC_CODES.invalidArgument, message)
}
