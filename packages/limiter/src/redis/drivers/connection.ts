/**
 * The way to one node that stays, while the connections on it come and go: opens one, greets the
 * node, and after its end opens the next.
 */
import {
  type RedisChannel,
  type RedisCommand,
  RedisConnectionError,
  RedisNodeProblem,
} from '../driver.js'
import { formatAddress, type RedisAddress } from '../url.js'
import { type Greeting, type Step, stepsOf } from './greeting.js'
import type { Link, OpenLink, Settle } from './link.js'
import { pauseMs } from './retry.js'
import { Sent, type SentEvents } from './sent.js'

export interface ConnectionEvents {
  ready(connection: Connection): void
  /** It was ready, and is not any more. */
  lost(connection: Connection): void
  problem(problem: Error): void
}

export interface ConnectionParts {
  readonly openLink: OpenLink
  readonly connectTimeoutMs: number
  readonly random: () => number
}

/** Writes whose replies are outstanding; whoever sends has a smaller bound of its own. */
const SENT_MAX = 1024
/** How often a node that is not fit yet is asked whether it is. */
const ASK_AGAIN_MS = 100
/** The same problem is told once until the node was ready again, and so many different ones. */
const PROBLEMS_MAX = 8

export class Connection implements RedisChannel {
  readonly #parts: ConnectionParts
  readonly #events: ConnectionEvents
  readonly #sentEvents: SentEvents
  readonly #steps: readonly Step[]
  /**
   * In no order: each knows its place, and the last takes the place of one that is done. A Set
   * would keep tables that it has outgrown, and with them young objects, until the whole heap is
   * searched.
   */
  readonly #sent: Sent[] = []
  readonly #problems = new Set<string>()
  #where: RedisAddress
  #address: string
  #link: Link | undefined
  #isFit = false
  #isClosed = false
  /** Signs of life while connecting, and of its end. */
  #signs = 0
  /** One at a time: of the pause, of the try, or of the next question whether the node is fit. */
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    where: RedisAddress,
    greeting: Greeting,
    parts: ConnectionParts,
    events: ConnectionEvents,
  ) {
    this.#where = where
    this.#address = formatAddress(where)
    this.#parts = parts
    this.#events = events
    this.#steps = stepsOf(greeting)
    this.#sentEvents = {
      done: (sent) => this.forget(sent),
      threw: (error) => events.problem(new Error('A listener of a reply threw', { cause: error })),
    }
    // Whoever made it has listeners to add first.
    this.setTimer(0, () => this.open())
  }

  get address(): string {
    return this.#address
  }

  get where(): RedisAddress {
    return this.#where
  }

  get host(): string {
    return this.#where.host
  }

  get isReady(): boolean {
    return this.#isFit && this.#link !== undefined && this.#link.isWritable
  }

  get hasOutstanding(): boolean {
    return this.#sent.length > 0
  }

  send(commands: readonly RedisCommand[], settle: Settle): boolean {
    const link = this.#link
    if (link === undefined || !this.isReady || this.#sent.length >= SENT_MAX) return false
    this.write(link, commands, settle)
    return true
  }

  /** On this connection, until it ends; after `ready` it has to be asked for again. */
  subscribe(channel: string, onMessage: (message: Buffer) => void): Promise<void> {
    const link = this.#link
    if (link !== undefined && this.isReady) return link.subscribe(channel, onMessage)
    return Promise.reject(new RedisConnectionError(`Redis at ${this.#address} is not connected`))
  }

  reconnect(): void {
    // One that is just being opened is not older than the wish for a new one.
    if (this.#isFit) this.drop(new Error('It was given up'), false)
  }

  /** The same way to another node: the old one is not the primary any more. */
  redirect(where: RedisAddress): void {
    const address = formatAddress(where)
    if (this.#isClosed || address === this.#address) return
    this.drop(new Error(`${address} is the primary now`), false)
    this.#where = where
    this.#address = address
    this.#problems.clear()
    this.open()
  }

  close(): void {
    this.#isClosed = true
    this.drop(new Error('It was closed'), false)
  }

  private open(): void {
    this.giveUpLater()
    const link = this.#parts.openLink(this.#where, {
      opened: () => {
        if (this.#link === link) this.greet(link)
      },
      ended: (reason) => {
        if (this.#link === link) this.drop(reason, false)
      },
    })
    this.#link = link
  }

  /** Started anew with every sign of life, so a slow node is waited for and a dead one is not. */
  private giveUpLater(): void {
    const { connectTimeoutMs } = this.#parts
    this.#signs += 1
    const signs = this.#signs
    this.setTimer(connectTimeoutMs, () => {
      // If this process was too busy to read, what has arrived meanwhile is read first.
      setImmediate(() => {
        if (signs !== this.#signs) return
        this.drop(new Error(`No answer within ${connectTimeoutMs} ms`), true)
      })
    })
  }

  private greet(link: Link): void {
    this.giveUpLater()
    const steps = this.#steps
    const commands = steps.map(({ command }) => command)
    let isFit = true
    this.write(link, commands, (index, reply) => {
      const step = steps[index]
      if (this.#link !== link || step === undefined) return
      this.giveUpLater()
      const verdict = step.judge(reply, (problem) => this.tell(problem))
      if (verdict instanceof Error) this.drop(verdict, false)
      else if (verdict === 'not-yet') isFit = false
      if (this.#link !== link || index < steps.length - 1) return
      if (isFit) this.fit()
      else this.setTimer(ASK_AGAIN_MS, () => this.greet(link))
    })
  }

  private fit(): void {
    this.clearTimer()
    this.#signs += 1
    this.#isFit = true
    this.#problems.clear()
    this.#events.ready(this)
  }

  private write(link: Link, commands: readonly RedisCommand[], settle: Settle): void {
    if (commands.length === 0) return
    const sent = new Sent(commands.length, settle, this.#sentEvents)
    sent.place = this.#sent.length
    this.#sent.push(sent)
    try {
      link.send(commands, (index, reply) => sent.settle(index, reply))
    } catch (error) {
      // Half of a command may be on its way: nothing that follows on this connection makes sense.
      this.drop(error instanceof Error ? error : new Error(String(error)), false)
    }
  }

  /** Ends the present connection, if there is one, and opens the next after a pause. */
  private drop(reason: Error, timedOut: boolean): void {
    const wasFit = this.#isFit
    const link = this.#link
    this.#isFit = false
    this.#link = undefined
    this.#signs += 1
    this.clearTimer()
    this.abandon(`The connection to ${this.#address} ended: ${reason.message}`)
    link?.destroy()
    if (this.#isClosed) return
    this.tell(reason)
    const pause = pauseMs(timedOut, this.#parts.random)
    this.setTimer(pause, () => this.open())
    if (wasFit) this.#events.lost(this)
  }

  /** In a turn of its own: whoever asked for a new connection is not called back meanwhile. */
  private abandon(why: string): void {
    if (this.#sent.length === 0) return
    const outstanding = this.#sent.splice(0)
    for (const sent of outstanding) sent.place = -1
    queueMicrotask(() => {
      for (const sent of outstanding) sent.abort(why)
    })
  }

  private forget(sent: Sent): void {
    const { place } = sent
    if (place < 0) return
    const last = this.#sent.pop()
    if (last === undefined || last === sent) return
    this.#sent[place] = last
    last.place = place
  }

  private tell(problem: Error): void {
    const { message } = problem
    if (this.#problems.has(message) || this.#problems.size >= PROBLEMS_MAX) return
    this.#problems.add(message)
    this.#events.problem(new RedisNodeProblem(this.#address, problem))
  }

  private setTimer(ms: number, then: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(then, ms)
  }

  private clearTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
