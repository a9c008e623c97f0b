/**
 * Streams of server-sent events: figures every two seconds, and what cannot wait for them. One
 * timer and one text for all who listen, and neither while nobody does.
 */
import { createThrottle, type Throttle } from '../../observability/log/throttle.js'
import { systemScheduler, type Scheduler } from '../../lib/scheduler.js'
import type { AdminDeps } from './admin-deps.js'
import { AdminError } from './admin-error.js'

/** What an `EventSource` waits before it comes again. */
const RETRY_MS = 2000
const TICK_EVERY_MS = 2000
/** A change of rules is told within this time. */
const POLL_EVERY_MS = 250
const POLLS_PER_TICK = TICK_EVERY_MS / POLL_EVERY_MS
const STREAMS_MAX = 64
/** One token, however often it is used, must not keep the others out. */
const STREAMS_OF_ONE_MAX = 32
/** Who has so much still to read does not read. */
const UNSENT_BYTES_MAX = 256 * 1024

export interface Subscriber {
  /** The id of its token. */
  readonly tokenId: string
  /** Whether it would still be let in; asked at each tick. */
  readonly isStillAuthenticated: () => boolean
  /** Ends its connection, for one that reads nothing. */
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
  /** The last tick, for who comes between two. */
  #last: Uint8Array | undefined
  #isTicking = false
  #isClosed = false

  constructor(deps: EventStreamsDeps) {
    this.#deps = deps
    this.#timers = deps.timers ?? systemScheduler
    this.#throttle = createThrottle(deps.clock)
  }

  /** How many listen. */
  count(): number {
    return this.#streams.size
  }

  /** Throws an `AdminError` where too many listen already. */
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

  /** Ends every stream now, and takes no more. */
  close(): void {
    this.#isClosed = true
    for (const stream of this.#streams) this.end(stream)
  }

  private requireRoom(tokenId: string): void {
    const own = [...this.#streams].filter((stream) => stream.tokenId === tokenId).length
    let found = ''
    if (this.#isClosed) found = 'the server is stopping'
    else if (own >= STREAMS_OF_ONE_MAX) found = `${own} of this token are open`
    else if (this.#streams.size >= STREAMS_MAX) found = `${STREAMS_MAX} are open`
    if (found === '') return
    const accepted = `up to ${STREAMS_OF_ONE_MAX} of a token and ${STREAMS_MAX} of all, in each process`
    throw new AdminError('too_many_streams', `streams: found ${found}; accepted: ${accepted}`)
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

  /** Never rejects. A tick that takes longer than the time between two is not asked for twice. */
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
      if (passed !== undefined) log.warn({ error: String(error), ...passed }, 'no figures to tell')
      // A remark, so that whoever listens knows that somebody is there.
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
