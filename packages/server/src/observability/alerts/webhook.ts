/**
 * Posts each beginning and end of an alert to a URL. Deliveries of one alert keep their order;
 * nothing else waits for the receiver.
 */
import { createHmac, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { show } from '@sluice/core'
import { Agent, request } from 'undici'
import { guardedLookup } from '../../lib/guarded-lookup.js'
import type { Config } from '../../config/config.js'
import { monotonicMs } from '../../lib/wall-clock.js'
import type { Log } from '../log/logger.js'
import type { Registry } from '../metrics/registry.js'
import { RELEASE } from '../../generated/release.js'
import { withTimeLimit } from '../../lib/time-limit.js'
import { Semaphore } from '../../lib/semaphore.js'
import { type Alert, type AlertSink, withoutCallerDetails } from './alert.js'

export interface WebhookOptions {
  readonly url: string
  /** Signs each body; undefined for no signature. */
  readonly secret: string | undefined
  readonly host: string
  /** Whether bodies may name callers (`clear`) or only contain their hashes. */
  readonly callers: 'hash' | 'clear'
  readonly log: Log
  /** Milliseconds of a monotonic clock. */
  readonly nowMs: () => number
  /** Bounds one attempt including the response body. @default 5000 */
  readonly timeoutMs?: number | undefined
  /** Waits, and returns early when the signal aborts. @default the timers of the system */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
}

/** Deliveries by result. */
export interface Deliveries {
  readonly delivered: number
  /** The receiver responded with a status that is not retried. */
  readonly refused: number
  /** The receiver was unreachable or failing for ten minutes. */
  readonly failed: number
  /** The queue was full. */
  readonly dropped: number
}

const TIMEOUT_MS = 5000
/** Pauses between attempts; the last one repeats. */
const BACKOFF_MS = [1000, 5000, 15_000, 60_000]
const GIVE_UP_MS = 600_000
const CLOSE_MS_MAX = 2000
const WAITING_MAX = 500
const CONNECTIONS = 4
const LINE_EVERY_MS = 60_000
const ANSWER_BYTES_MAX = 16 * 1024

interface Delivery {
  readonly id: string
  readonly body: string
}

type DeliveryResult =
  | { readonly isDelivered: true }
  | { readonly problem: string; readonly isRetryable: boolean }

export class Webhook implements AlertSink {
  readonly #options: WebhookOptions
  readonly #agent = new Agent({
    connections: CONNECTIONS,
    connect: { timeout: TIMEOUT_MS, lookup: guardedLookup },
  })
  readonly #semaphore = new Semaphore(CONNECTIONS)
  /** By alert id: pending deliveries, the first of which may be in flight. */
  readonly #queues = new Map<string, { readonly waiting: Delivery[]; done: Promise<void> }>()
  readonly #counts = { delivered: 0, refused: 0, failed: 0, dropped: 0 }
  /** Aborts pauses, so that pending deliveries get one last attempt. */
  readonly #closing = new AbortController()
  readonly #end = new AbortController()
  #waiting = 0
  #isFull = false
  #lineFromMs = -Infinity
  #suppressed = 0

  constructor(options: WebhookOptions) {
    this.#options = options
  }

  deliveries(): Deliveries {
    return { ...this.#counts }
  }

  notify(alert: Alert): void {
    if (this.#closing.signal.aborted) return
    if (this.#waiting >= WAITING_MAX) return this.drop()
    this.#waiting++
    const delivery = { id: randomUUID(), body: bodyOf(alert, this.#options) }
    const queue = this.#queues.get(alert.id)
    if (queue !== undefined) return void queue.waiting.push(delivery)
    const made = { waiting: [delivery], done: Promise.resolve() }
    this.#queues.set(alert.id, made)
    made.done = this.drainQueue(alert.id, made.waiting)
  }

  async close(): Promise<void> {
    const { wait = waitFor } = this.#options
    this.#closing.abort()
    const done = Promise.all([...this.#queues.values()].map((queue) => queue.done))
    await Promise.race([done, wait(CLOSE_MS_MAX, this.#end.signal)])
    this.#end.abort()
    await done
    await this.#agent.destroy()
  }

  /** Never rejects. */
  private async drainQueue(alertId: string, waiting: Delivery[]): Promise<void> {
    let next = waiting[0]
    while (next !== undefined) {
      await this.deliver(next)
      waiting.shift()
      this.#waiting--
      if (this.#waiting === 0) this.#isFull = false
      next = waiting[0]
    }
    this.#queues.delete(alertId)
  }

  private async deliver(delivery: Delivery): Promise<void> {
    const { nowMs, wait = waitFor } = this.#options
    const beganMs = nowMs()
    for (let tries = 0; ; tries++) {
      const isClosing = this.#closing.signal.aborted
      const result = await this.#semaphore.run(() => this.post(delivery))
      if ('isDelivered' in result) {
        this.#counts.delivered++
        return
      }
      const pauseMs = BACKOFF_MS[Math.min(tries, BACKOFF_MS.length - 1)] ?? 0
      const isLate = nowMs() - beganMs + pauseMs > GIVE_UP_MS
      const isLast = !result.isRetryable || isClosing || isLate
      this.logFailure(result.problem, isLast)
      if (isLast) {
        this.#counts[result.isRetryable ? 'failed' : 'refused']++
        return
      }
      if (!this.#closing.signal.aborted) await wait(pauseMs, this.#closing.signal)
    }
  }

  private async post(delivery: Delivery): Promise<DeliveryResult> {
    const { timeoutMs = TIMEOUT_MS } = this.#options
    try {
      return await withTimeLimit({ timeoutMs, parent: this.#end.signal }, (signal) =>
        this.postOnce(delivery, signal),
      )
    } catch (error) {
      return { problem: describe(error), isRetryable: true }
    }
  }

  /** Does not follow redirects: only the configuration decides where alerts go. */
  private async postOnce({ id, body }: Delivery, signal: AbortSignal): Promise<DeliveryResult> {
    const { url, secret } = this.#options
    const { statusCode, body: answer } = await request(url, {
      method: 'POST',
      dispatcher: this.#agent,
      headers: {
        'content-type': 'application/json',
        'user-agent': `sluice/${RELEASE}`,
        'x-sluice-delivery': id,
        ...(secret !== undefined && { 'x-sluice-signature': signatureOf(body, secret) }),
      },
      body,
      signal,
    })
    // Reading the body lets the connection be reused; an error there does not matter. The limit
    // keeps an endless body from occupying the connection.
    await answer.dump({ limit: ANSWER_BYTES_MAX, signal }).catch(() => {})
    if (statusCode >= 200 && statusCode < 300) return { isDelivered: true }
    const problem = `found status ${statusCode}; accepted: 200 to 299`
    return { problem, isRetryable: statusCode === 429 || statusCode >= 500 }
  }

  private drop(): void {
    this.#counts.dropped++
    if (this.#isFull) return
    this.#isFull = true
    this.#options.log.error(
      { webhook: originOf(this.#options.url), waiting: this.#waiting },
      'webhook: queue full, alerts dropped',
    )
  }

  /** Logs at most once a minute, because the receiver may be down for long. */
  private logFailure(problem: string, isGivenUp: boolean): void {
    const { log, url, nowMs } = this.#options
    const now = nowMs()
    if (now < this.#lineFromMs) {
      this.#suppressed++
      return
    }
    const fields = { webhook: originOf(url), problem, suppressed: this.#suppressed }
    this.#lineFromMs = now + LINE_EVERY_MS
    this.#suppressed = 0
    if (isGivenUp) log.error(fields, 'webhook: delivery failed, giving up')
    else log.warn(fields, 'webhook: delivery failed, will retry')
  }
}

/** The body of a delivery. Programs read it, so fields may be added but never removed. */
function bodyOf(alert: Alert, { host, callers }: WebhookOptions): string {
  const details = callers === 'clear' ? alert.details : withoutCallerDetails(alert.details)
  return JSON.stringify({
    version: 1,
    event: 'alert',
    state: alert.resolvedAt === null ? 'firing' : 'resolved',
    alert: { ...alert, details },
    source: 'sluice',
    node: alert.node,
    host,
  })
}

function signatureOf(body: string, secret: string): string {
  return `sha256=${createHmac('sha256', secret).update(body, 'utf8').digest('hex')}`
}

/** Logs get only the origin, because for many services the path is the secret. */
function originOf(url: string): string {
  return show(new URL(url).origin, 200)
}

/** Some socket errors have only a code and no message. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return show(error, 200)
  const code: unknown = Reflect.get(error, 'code')
  return show(error.message || code || error.name, 200)
}

async function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { ref: false, signal }).catch(() => {})
}

/** Opens the webhook that is configured; undefined without one. */
export function openWebhook(config: Pick<Config, 'alerts' | 'log'>, log: Log): Webhook | undefined {
  const { webhook } = config.alerts
  if (webhook === undefined) return undefined
  const { callers } = config.log
  return new Webhook({ ...webhook, host: hostname(), callers, log, nowMs: monotonicMs })
}

/** `read` returns undefined without a webhook. */
export function registerDeliveryMetrics(
  registry: Registry,
  read: () => Deliveries | undefined,
): void {
  registry.total(
    'sluice_alert_deliveries_total',
    'Notifications of alerts that begin or end, posted to the webhook, by result.',
    () => Object.entries(read() ?? {}).map(([result, count]) => [[result], count]),
    { labelNames: ['result'] },
  )
}
