/**
 * Streams of server-sent events: figures every two seconds, and what cannot wait for them. One
 * timer and one text for all who listen, and neither while nobody does.
 */
import { createThrottle, type Throttle } from '../log/throttle.js'
import { systemTimers, type Timers } from '../source/timers.js'
import type { AdminParts } from './admin-parts.js'
import { AdminError } from './problem.js'

/** What an `EventSource` waits before it comes again. */
const RETRY_MS = 2000
const TICK_EVERY_MS = 2000
/** A change of rules is told within this time. */
const LOOK_EVERY_MS = 250
const LOOKS_PER_TICK = TICK_EVERY_MS / LOOK_EVERY_MS
const STREAMS_MAX = 64
/** One token, however often it is used, must not keep the others out. */
const STREAMS_OF_ONE_MAX = 32
/** Who has so much still to read does not read. */
const UNSENT_BYTES_MAX = 256 * 1024

export interface Listener {
  /** The id of its token. */
  readonly who: string
  /** Whether it would still be let in; asked at each tick. */
  readonly isLetIn: () => boolean
  /** Ends its connection, for one that reads nothing. */
  readonly cut: () => void
}

export type EventParts = Pick<AdminParts, 'sight' | 'alerts' | 'source' | 'log' | 'clock'> & {
  readonly timers?: Timers | undefined
}

interface Stream extends Listener {
  readonly controller: ReadableStreamDefaultController<Uint8Array>
}

export class Events {
  readonly #parts: EventParts
  readonly #timers: Timers
  readonly #throttle: Throttle
  readonly #streams = new Set<Stream>()
  readonly #encoder = new TextEncoder()
  #stop: (() => void) | undefined
  #looks = 0
  #version = 0
  /** The last tick, for who comes between two. */
  #last: Uint8Array | undefined
  #isAsking = false
  #isClosed = false

  constructor(parts: EventParts) {
    this.#parts = parts
    this.#timers = parts.timers ?? systemTimers
    this.#throttle = createThrottle(parts.clock)
  }

  /** How many listen. */
  count(): number {
    return this.#streams.size
  }

  /** Throws an `AdminError` where too many listen already. */
  open(listener: Listener): ReadableStream<Uint8Array> {
    this.requireRoom(listener.who)
    let stream: Stream | undefined
    const strategy = new ByteLengthQueuingStrategy({ highWaterMark: UNSENT_BYTES_MAX })
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          const { who, isLetIn, cut } = listener
          stream = { who, isLetIn, cut, controller }
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

  private requireRoom(who: string): void {
    const own = [...this.#streams].filter((stream) => stream.who === who).length
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
    const { source, alerts } = this.#parts
    this.#version = source.version()
    this.#looks = 0
    const endAlerts = alerts.onChange((alert) => this.sendAll('alert', alert))
    let endTimer = () => {}
    const again = () => {
      endTimer = this.#timers.after(LOOK_EVERY_MS, () => {
        this.look()
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

  private look(): void {
    const version = this.#parts.source.version()
    if (version !== this.#version) {
      this.#version = version
      this.sendAll('rules', { version })
    }
    this.#looks++
    if (this.#looks % LOOKS_PER_TICK !== 0) return
    for (const stream of this.#streams) if (!stream.isLetIn()) this.end(stream)
    void this.tick()
  }

  /** Never rejects. A tick that takes longer than the time between two is not asked for twice. */
  private async tick(): Promise<void> {
    const { sight, log } = this.#parts
    if (this.#isAsking || this.#streams.size === 0) return
    this.#isAsking = true
    try {
      const seen = await sight.tick()
      const { active } = await sight.alerts()
      const data = { ...seen, alertsActive: active.length }
      this.#last = this.textOf('tick', data, seen.endMs)
      this.sendText(this.#last)
    } catch (error) {
      const passed = this.#throttle.pass('tick')
      if (passed !== undefined) log.warn({ error: String(error), ...passed }, 'no figures to tell')
      // A remark, so that whoever listens knows that somebody is there.
      this.sendText(this.#encoder.encode(': no figures\n\n'))
    } finally {
      this.#isAsking = false
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
