/**
 * Measures how late this process and the store are by themselves. A decision cannot be blamed for a
 * delay that a bare timer, or a bare PING, suffers at the same moment.
 */
import { connect, type Socket } from 'node:net'

interface Stall {
  readonly fromMs: number
  readonly untilMs: number
}

/** Shorter stalls are within the resolution of timers and are not recorded. */
const KEPT_MS = 3

class Stalls {
  readonly #stalls: Stall[] = []
  #longestMs = 0

  get longestMs(): number {
    return this.#longestMs
  }

  /** The longest stall that overlaps this time. */
  longestIn(fromMs: number, untilMs: number): number {
    return Math.max(0, ...this.touching(fromMs, untilMs).map((stall) => lengthOf(stall)))
  }

  /** How much of this time was stalled. */
  stalledIn(fromMs: number, untilMs: number): number {
    return this.touching(fromMs, untilMs)
      .map((stall) => Math.min(stall.untilMs, untilMs) - Math.max(stall.fromMs, fromMs))
      .reduce((sum, ms) => sum + ms, 0)
  }

  protected add(stall: Stall): void {
    this.#longestMs = Math.max(this.#longestMs, lengthOf(stall))
    if (lengthOf(stall) > KEPT_MS) this.#stalls.push(stall)
  }

  private touching(fromMs: number, untilMs: number): readonly Stall[] {
    return this.#stalls.filter((stall) => stall.fromMs < untilMs && stall.untilMs > fromMs)
  }
}

function lengthOf({ fromMs, untilMs }: Stall): number {
  return untilMs - fromMs
}

/** A bare timer that fires all the time: its delays affect everything in this process. */
export class TimerCanary extends Stalls {
  readonly #interval: NodeJS.Timeout

  constructor() {
    super()
    let fromMs = performance.now()
    this.#interval = setInterval(() => {
      const untilMs = performance.now()
      this.add({ fromMs, untilMs })
      fromMs = untilMs
    }, 1)
  }

  stop(): void {
    clearInterval(this.#interval)
  }
}

const PING_EVERY_MS = 5

/** One PING after the other, directly to a Redis. */
export class PingCanary extends Stalls {
  readonly #socket: Socket
  readonly #interval: NodeJS.Timeout
  #sentMs: number | undefined

  constructor(port: number) {
    super()
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#socket.on('error', () => {})
    this.#socket.on('data', () => {
      if (this.#sentMs !== undefined) this.add({ fromMs: this.#sentMs, untilMs: performance.now() })
      this.#sentMs = undefined
    })
    this.#interval = setInterval(() => {
      if (this.#sentMs !== undefined) return
      this.#sentMs = performance.now()
      this.#socket.write('PING\r\n')
    }, PING_EVERY_MS)
  }

  stop(): void {
    clearInterval(this.#interval)
    this.#socket.destroy()
  }
}
