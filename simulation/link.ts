/**
 * The connection of one node to the store. It is TCP: within a connection nothing is doubled and
 * nothing overtakes; what is on its way when the connection ends is lost, and nobody knows how much
 * of it arrived. So a message is doubled nowhere; only what a node itself may send again (its beat)
 * can be done twice.
 */
import type { Agenda } from './agenda.js'
import type { Random } from './random.js'
import type { Heard, Reply, Request } from './requests.js'
import type { Server } from './server.js'
import { JITTER_MAX } from './truth.js'

export interface LinkOptions {
  readonly agenda: Agenda
  readonly random: Random
  readonly server: Server
  readonly delayUs: number
  readonly jitterUs: number
  /** Brings what arrives to the node, which may be paused. */
  readonly deliver: (run: () => void) => void
  /** The store did it, and the node will not hear of it. */
  readonly onLost: (request: Request, reply: Reply) => void
}

interface Way {
  lastUs: number
}

export class Link {
  readonly #options: LinkOptions
  readonly #there: Way = { lastUs: 0 }
  readonly #back: Way = { lastUs: 0 }
  /** Each connection has a number: what travels on an earlier one is lost. */
  #connection = 0
  #waiting = new Set<(heard: Heard) => void>()
  #brokenUntilUs = 0
  #cutUntilUs = 0
  #stalledUntilUs = 0

  constructor(options: LinkOptions) {
    this.#options = options
  }

  get isUp(): boolean {
    return this.#options.agenda.nowUs >= this.#brokenUntilUs
  }

  /** False: there is no connection, so nothing was sent. */
  send(request: Request, hear: (heard: Heard) => void): boolean {
    if (!this.isUp) return false
    const connection = this.#connection
    this.#waiting.add(hear)
    if (!this.isCut()) this.travel(this.#there, () => this.arrive(request, hear, connection))
    return true
  }

  /** The connection ends, the node hears of it, and there is none for so long. */
  reset(forUs: number): void {
    this.#connection += 1
    this.#brokenUntilUs = Math.max(this.#brokenUntilUs, this.#options.agenda.nowUs + forUs)
    const waiting = this.#waiting
    this.#waiting = new Set()
    for (const hear of waiting) this.#options.deliver(() => hear('lost'))
  }

  /** Nothing arrives for so long, and nobody is told. */
  cut(forUs: number): void {
    this.#connection += 1
    this.#cutUntilUs = Math.max(this.#cutUntilUs, this.#options.agenda.nowUs + forUs)
  }

  /** What is sent in the meantime arrives at the end of it. */
  stall(forUs: number): void {
    this.#stalledUntilUs = Math.max(this.#stalledUntilUs, this.#options.agenda.nowUs + forUs)
  }

  private isCut(): boolean {
    return this.#options.agenda.nowUs < this.#cutUntilUs
  }

  private travel(way: Way, run: () => void): void {
    const { agenda, random, delayUs, jitterUs } = this.#options
    const leavesUs = Math.max(agenda.nowUs, this.#stalledUntilUs)
    const arrivesUs = Math.round(
      leavesUs + delayUs + Math.min(random.spread(jitterUs), JITTER_MAX * jitterUs),
    )
    way.lastUs = Math.max(way.lastUs, arrivesUs)
    agenda.at(way.lastUs, run)
  }

  private arrive(request: Request, hear: (heard: Heard) => void, connection: number): void {
    const { agenda, server } = this.#options
    if (connection !== this.#connection) return
    if (server.readyUs > agenda.nowUs) {
      agenda.at(server.readyUs, () => this.arrive(request, hear, connection))
      return
    }
    const reply = server.handle(request)
    this.travel(this.#back, () => {
      if (connection !== this.#connection || !this.#waiting.delete(hear)) {
        this.#options.onLost(request, reply)
        return
      }
      this.#options.deliver(() => hear(reply))
    })
  }
}
