/**
 * Server-sent events: statistics every two seconds; changes of rules and alerts at once. All
 * subscribers share one timer and one encoded event; without subscribers there is no timer.
 */
import { createThrottle, type Throttle } from '../../observability/log/throttle.js'
import { systemScheduler, type Scheduler } from '../../lib/scheduler.js'
import type { AdminDeps } from './admin-deps.js'
import { AdminError } from './admin-error.js'

/** How long an `EventSource` waits before it reconnects. */
const RETRY_MS = 2000
const TICK_EVERY_MS = 2000
/** A change of rules is sent within this time. */
const POLL_EVERY_MS = 250
const POLLS_PER_TICK = TICK_EVERY_MS / POLL_EVERY_MS
const STREAMS_MAX = 64
/** One token must not take all streams. */
const STREAMS_OF_ONE_MAX = 32
/** A subscriber with so much unsent data is disconnected. */
const UNSENT_BYTES_MAX = 256 * 1024

export interface Subscriber {
  /** The id of its token. */
  readonly tokenId: string
  /** Whether its credentials are still valid; checked at each tick. */
  readonly isStillAuthenticated: () => boolean
  /** Closes its connection, if it does not read. */
  readonly cut: () => void
}

export type EventStreamsDeps = Pick<
  AdminDeps,
  'fleetStats' | 'alerts' | 'ruleFollower' | 'log' | 'clock'
> & {
  readonly timers?: Scheduler | undefined
}

interface Stream extends Subscriber {
  readonly controller: ReadableStreamDefaultController<Uint8Array>
}

export class EventStreams {
  readonly #deps: EventStreamsDeps
  readonly #timers: Scheduler
  readonly #throttle: Throttle
  readonly #streams = new Set<Stream>()
  readonly #encoder = new TextEncoder()
  #stop: (() => void) | undefined
  #polls = 0
  #version = 0
  /** The last tick, sent at once to new subscribers. */
  #last: Uint8Array | undefined
  #isTicking = false
  #isClosed = false

  constructor(deps: EventStreamsDeps) {
    this.#deps = deps
    this.#timers = deps.timers ?? systemScheduler
    this.#throttle = createThrottle(deps.clock)
  }

  /** The number of open streams. */
  count(): number {
    return this.#streams.size
  }

  /** Throws an `AdminError` if too many streams are open. */
  open(subscriber: Subscriber): ReadableStream<Uint8Array> {
    this.requireRoom(subscriber.tokenId)
    let stream: Stream | undefined
    const strategy = new ByteLengthQueuingStrategy({ highWaterMark: UNSENT_BYTES_MAX })
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          const { tokenId, isStillAuthenticated, cut } = subscriber
          stream = { tokenId, isStillAuthenticated, cut, controller }
          this.begin(stream)
        },
        cancel: () => {
          if (stream !== undefined) this.forget(stream)
        },
      },
      strategy,
    )
  }

  /** Ends all streams, and accepts no more. */
  close(): void {
    this.#isClosed = true
    for (const stream of this.#streams) this.end(stream)
  }

  private requireRoom(tokenId: string): void {
    const own = [...this.#streams].filter((stream) => stream.tokenId === tokenId).length
    let found = ''
    if (this.#isClosed) found = 'The server is stopping.'
    else if (own >= STREAMS_OF_ONE_MAX) found = `This token has ${own} open event streams.`
    else if (this.#streams.size >= STREAMS_MAX) found = `${STREAMS_MAX} event streams are open.`
    if (found === '') return
    const most = `Each process has up to ${STREAMS_OF_ONE_MAX} for one token and ${STREAMS_MAX} in all.`
    throw new AdminError('too_many_streams', `${found} ${most}`)
  }

  private begin(stream: Stream): void {
    this.#streams.add(stream)
    stream.controller.enqueue(this.#encoder.encode(`retry: ${RETRY_MS}\n\n`))
    if (this.#stop === undefined) this.start()
    else if (this.#last !== undefined) this.send(stream, this.#last)
  }

  private start(): void {
    const { ruleFollower, alerts } = this.#deps
    this.#version = ruleFollower.version()
    this.#polls = 0
    const endAlerts = alerts.onChange((alert) => this.sendAll('alert', alert))
    let endTimer = () => {}
    const again = () => {
      endTimer = this.#timers.after(POLL_EVERY_MS, () => {
        this.poll()
        if (this.#streams.size > 0) again()
      })
    }
    this.#stop = () => {
      endTimer()
      endAlerts()
    }
    again()
    void this.tick()
  }

  private poll(): void {
    const version = this.#deps.ruleFollower.version()
    if (version !== this.#version) {
      this.#version = version
      this.sendAll('rules', { version })
    }
    this.#polls++
    if (this.#polls % POLLS_PER_TICK !== 0) return
    for (const stream of this.#streams) if (!stream.isStillAuthenticated()) this.end(stream)
    void this.tick()
  }

  /** Never rejects. Skipped while the last one still runs. */
  private async tick(): Promise<void> {
    const { fleetStats, log } = this.#deps
    if (this.#isTicking || this.#streams.size === 0) return
    this.#isTicking = true
    try {
      const stats = await fleetStats.tick()
      const { active } = await fleetStats.alerts()
      const data = { ...stats, alertsActive: active.length }
      this.#last = this.textOf('tick', data, stats.endMs)
      this.sendText(this.#last)
    } catch (error) {
      const passed = this.#throttle.pass('tick')
      if (passed !== undefined)
        log.warn({ error: String(error), ...passed }, 'failed to read statistics for event streams')
      // A comment line, so that clients see that the connection is alive.
      this.sendText(this.#encoder.encode(': no figures\n\n'))
    } finally {
      this.#isTicking = false
      if (this.#streams.size === 0) this.#last = undefined
    }
  }

  private textOf(event: string, data: object, id?: number): Uint8Array {
    const named = id === undefined ? '' : `id: ${id}\n`
    return this.#encoder.encode(`${named}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  }

  private sendAll(event: string, data: object): void {
    this.sendText(this.textOf(event, data))
  }

  private sendText(text: Uint8Array): void {
    for (const stream of this.#streams) this.send(stream, text)
  }

  private send(stream: Stream, text: Uint8Array): void {
    const room = stream.controller.desiredSize ?? 0
    if (text.byteLength <= room) return stream.controller.enqueue(text)
    this.end(stream)
    stream.cut()
  }

  private end(stream: Stream): void {
    this.forget(stream)
    stream.controller.close()
  }

  private forget(stream: Stream): void {
    this.#streams.delete(stream)
    if (this.#streams.size > 0) return
    this.#stop?.()
    this.#stop = undefined
    this.#last = undefined
  }
}
