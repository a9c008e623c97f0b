/**
 * The connection of one node to the store. Like TCP it neither duplicates nor reorders messages;
 * when it ends, messages in flight are lost, and neither side knows how many arrived. Only messages
 * that a node itself may repeat (its heartbeat) can be applied twice.
 */
import type { Agenda } from './agenda.js'
import type { Random } from './random.js'
import type { LinkOutcome, Reply, Request } from './requests.js'
import type { SimServer } from './sim-server.js'
import { JITTER_MAX } from './ground-truth.js'

export interface SimLinkOptions {
  readonly agenda: Agenda
  readonly random: Random
  readonly server: SimServer
  readonly delayUs: number
  readonly jitterUs: number
  /** Delivers to the node, which may be paused. */
  readonly deliver: (run: () => void) => void
  /** The store applied it, and the node will not receive the answer. */
  readonly onLost: (request: Request, reply: Reply) => void
}

interface Direction {
  lastUs: number
}

export class SimLink {
  readonly #options: SimLinkOptions
  readonly #toServer: Direction = { lastUs: 0 }
  readonly #toNode: Direction = { lastUs: 0 }
  /** Each connection has a number: messages of an earlier one are lost. */
  #connection = 0
  #pending = new Set<(outcome: LinkOutcome) => void>()
  #brokenUntilUs = 0
  #cutUntilUs = 0
  #stalledUntilUs = 0

  constructor(options: SimLinkOptions) {
    this.#options = options
  }

  get isUp(): boolean {
    return this.#options.agenda.nowUs >= this.#brokenUntilUs
  }

  /** Returns false without a connection, so nothing was sent. */
  send(request: Request, onOutcome: (outcome: LinkOutcome) => void): boolean {
    if (!this.isUp) return false
    const connection = this.#connection
    this.#pending.add(onOutcome)
    if (!this.isCut())
      this.travel(this.#toServer, () => this.arrive(request, onOutcome, connection))
    return true
  }

  /** The connection ends with an error for the node, and cannot be opened for this long. */
  reset(forUs: number): void {
    this.#connection += 1
    this.#brokenUntilUs = Math.max(this.#brokenUntilUs, this.#options.agenda.nowUs + forUs)
    const pending = this.#pending
    this.#pending = new Set()
    for (const onOutcome of pending) this.#options.deliver(() => onOutcome('lost'))
  }

  /** Nothing arrives for this long, without an error. */
  cut(forUs: number): void {
    this.#connection += 1
    this.#cutUntilUs = Math.max(this.#cutUntilUs, this.#options.agenda.nowUs + forUs)
  }

  /** Messages sent meanwhile arrive at the end of it. */
  stall(forUs: number): void {
    this.#stalledUntilUs = Math.max(this.#stalledUntilUs, this.#options.agenda.nowUs + forUs)
  }

  private isCut(): boolean {
    return this.#options.agenda.nowUs < this.#cutUntilUs
  }

  private travel(direction: Direction, run: () => void): void {
    const { agenda, random, delayUs, jitterUs } = this.#options
    const leavesUs = Math.max(agenda.nowUs, this.#stalledUntilUs)
    const arrivesUs = Math.round(
      leavesUs + delayUs + Math.min(random.spread(jitterUs), JITTER_MAX * jitterUs),
    )
    direction.lastUs = Math.max(direction.lastUs, arrivesUs)
    agenda.at(direction.lastUs, run)
  }

  private arrive(
    request: Request,
    onOutcome: (outcome: LinkOutcome) => void,
    connection: number,
  ): void {
    const { agenda, server } = this.#options
    if (connection !== this.#connection) return
    if (server.readyUs > agenda.nowUs) {
      agenda.at(server.readyUs, () => this.arrive(request, onOutcome, connection))
      return
    }
    const reply = server.handle(request)
    this.travel(this.#toNode, () => {
      if (connection !== this.#connection || !this.#pending.delete(onOutcome)) {
        this.#options.onLost(request, reply)
        return
      }
      this.#options.deliver(() => onOutcome(reply))
    })
  }
}
