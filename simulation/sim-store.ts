/**
 * The store as a node uses it: the contract of the Redis store over a simulated connection. Its
 * parts that decide something (clock bounds, breaker, fleet) are the real ones.
 */
import { type CounterKey, SluiceError, type Take } from '@sluice/core'
import type {
  Answer,
  Charge,
  Give,
  Groups,
  PeekOutcome,
  Remote,
  Silence,
  Store,
  StoreHealth,
  TakeOptions,
} from '@sluice/limiter'
import {
  type HeartbeatReply,
  Breaker,
  FleetMembership,
  PeriodicTask,
  type Scheduler,
  StoreClock,
} from '@sluice/limiter/internal'
import type { SimLink } from './sim-link.js'
import type { Random } from './random.js'
import type { Operation, LinkOutcome, Reply, Request } from './requests.js'

/** As in the Redis store: a node without answers requests the time at this interval. */
const TIME_EVERY_MS = 1000
const DOUBLED_BEATS = 0.05

export interface SimStoreOptions {
  readonly node: string
  readonly link: SimLink
  readonly scheduler: Scheduler
  readonly nowMs: () => number
  readonly trueUs: () => number
  readonly random: Random
  readonly secret: Uint8Array
  readonly denyCacheMs: number
  readonly deadlineMs: number
  readonly fleetSize: number
  /** Belongs to another fleet: it only tells that store what was spent here. @default false */
  readonly isGuest?: boolean | undefined
  readonly onGive: (give: Give) => void
  readonly onNotGiven: (give: Give) => void
  readonly onReset: (key: CounterKey) => void
  /** Whether it was applied is unknown. */
  readonly onDoubt: (request: Request) => void
}

export class SimStore implements Store {
  readonly clock: StoreClock
  readonly remote: Remote
  readonly fleet: FleetMembership
  readonly #options: SimStoreOptions
  readonly #breaker: Breaker
  readonly #timePoll: PeriodicTask
  readonly #listeners: (() => void)[] = []
  /** Whether the store has answered since the connection was opened. */
  #hasReply = true
  #isClosed = false

  constructor(options: SimStoreOptions) {
    const { nowMs, scheduler, secret, denyCacheMs, deadlineMs, random } = options
    this.#options = options
    this.clock = new StoreClock(nowMs)
    this.#breaker = new Breaker(nowMs, () => random.next())
    this.#timePoll = new PeriodicTask(TIME_EVERY_MS, () => this.pollTimeIfIdle(), scheduler)
    this.fleet = new FleetMembership({
      sendHeartbeat: (lifeMs) => this.beat(lifeMs),
      nowMs,
      scheduler,
      fleetSize: options.fleetSize,
    })
    this.remote = {
      time: () => this.clock.now(),
      latestTime: () => (this.clock.isKnown ? this.clock.latest() : Infinity),
      uncertaintyUs: () => this.clock.uncertaintyUs(),
      fleetSize: () => this.fleet.size(),
      fleetPlace: () => this.fleet.place(),
      secret: Promise.resolve(secret),
      denyCacheMs,
      deadlineMs,
      onAnswering: (listener) => void this.#listeners.push(listener),
    }
  }

  /** As in the Redis store: it gets no calls before its first answer on a new connection. */
  private get isAnswering(): boolean {
    return this.#hasReply && !this.#breaker.isOpen
  }

  start(): void {
    if (this.#options.isGuest !== true) this.fleet.start()
    this.#timePoll.start()
  }

  take(groups: Groups<Take>, options: TakeOptions = {}): Promise<Groups<Answer>> {
    const all = (silence: Silence) => groups.map((takes) => takes.map(() => silence))
    const { states = false, onLate } = options
    const operation: Operation = { verb: 'take', groups, states }
    return new Promise((resolve) => {
      const answersOf = (outcome: LinkOutcome | 'unsent') => {
        if (outcome === 'unsent') return all('not-run')
        if (outcome === 'lost') return all('unknown')
        return outcome.late ? all('not-run') : (outcome.answers ?? all('unknown'))
      }
      this.send(operation, options.deadlineMs ?? this.#options.deadlineMs, {
        inTime: (outcome) => resolve(answersOf(outcome)),
        expired: () => resolve(all('unknown')),
        late: (outcome) => onLate?.(answersOf(outcome)),
      })
    })
  }

  async peek(groups: Groups<Take>): Promise<Groups<PeekOutcome>> {
    const reply = await this.execute({ verb: 'peek', groups })
    return reply.peeked ?? []
  }

  async give(give: Give): Promise<void> {
    const { onGive, onNotGiven } = this.#options
    onGive(give)
    try {
      await this.execute({ verb: 'give', give })
    } catch (error) {
      if (error instanceof NoReplyError && error.silence === 'not-run') onNotGiven(give)
      throw error
    }
  }

  async charge(charge: Charge): Promise<void> {
    await this.execute({ verb: 'charge', charge })
  }

  async reset(key: CounterKey): Promise<void> {
    await this.execute({ verb: 'reset', key })
    this.#options.onReset(key)
  }

  /** As far as the limiter and its links to other regions use it. */
  health(): StoreHealth {
    const server = {
      address: 'simulated',
      isAnswering: this.isAnswering,
      isBreakerOpen: this.#breaker.isOpen,
      breakerOpened: 0,
      clock: undefined,
      inFlight: 0,
      queuedTakes: 0,
    }
    const state = this.clock.isKnown ? 'ready' : 'starting'
    const fleet = { size: this.fleet.size(), ageMs: 0 }
    return { remote: { state, nodes: [server], fleet }, memory: undefined, isPersistent: undefined }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#timePoll.stop()
    if (this.#options.isGuest !== true) await this.fleet.leave()
  }

  /** The connection is open again, perhaps to another server. */
  onReconnect(): void {
    this.clock.forget()
    this.#hasReply = false
    void this.pollTime()
  }

  /** Some heartbeats are sent twice, as a client may do with idempotent requests. */
  private async beat(lifeMs: number): Promise<HeartbeatReply> {
    if (this.#options.random.chance(DOUBLED_BEATS)) {
      void this.execute({ verb: 'beat', lifeMs }).catch(() => {})
    }
    const { beat } = await this.execute({ verb: 'beat', lifeMs })
    if (beat === undefined) throw new NoReplyError('beat', 'unknown')
    return { ...beat, fingerprint: undefined }
  }

  private execute(operation: Operation): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const fail = (silence: Silence) => reject(new NoReplyError(operation.verb, silence))
      this.send(operation, this.#options.deadlineMs, {
        inTime: (outcome) => {
          if (outcome === 'unsent') fail('not-run')
          else if (outcome === 'lost') fail('unknown')
          else if (outcome.late) fail('not-run')
          else resolve(outcome)
        },
        expired: () => fail('unknown'),
        late: () => {},
      })
    })
  }

  private send(
    operation: Operation,
    deadlineMs: number,
    then: {
      readonly inTime: (outcome: LinkOutcome | 'unsent') => void
      readonly expired: () => void
      readonly late: (reply: Reply) => void
    },
  ): void {
    const isProbe = operation.verb === 'time' || operation.verb === 'beat'
    if (!this.isAnswering && !isProbe) {
      then.inTime('unsent')
      return
    }
    const { link, scheduler, nowMs, node, trueUs } = this.#options
    const sentMs = nowMs()
    const notAfter = this.clock.isKnown ? Math.max(1, this.clock.earliest(sentMs + deadlineMs)) : 0
    const request: Request = { node, operation, sentUs: trueUs(), notAfter }
    let isAnswered = false
    let callOff = () => {}
    const left = link.send(request, (outcome) => {
      callOff()
      const wasAnswered = isAnswered
      isAnswered = true
      if (outcome !== 'lost') this.onReply(outcome, sentMs)
      else if (!wasAnswered) this.#options.onDoubt(request)
      if (!wasAnswered) then.inTime(outcome)
      else if (outcome !== 'lost') then.late(outcome)
    })
    if (!left) {
      then.inTime('unsent')
      return
    }
    callOff = scheduler.after(deadlineMs, () => {
      if (isAnswered) return
      isAnswered = true
      this.#options.onDoubt(request)
      this.onTimeout()
      then.expired()
    })
  }

  private onReply({ storeUs }: Reply, sentMs: number): void {
    const receivedMs = this.#options.nowMs()
    this.clock.learn(sentMs, receivedMs, storeUs)
    const wasAnswering = this.isAnswering
    this.#hasReply = true
    if (receivedMs - sentMs > this.#options.deadlineMs) return
    if (this.#breaker.isOpen) this.#breaker.close()
    else this.#breaker.succeed()
    if (wasAnswering) return
    for (const listener of this.#listeners) listener()
  }

  private onTimeout(): void {
    if (this.#breaker.fail()) this.probeLater()
  }

  private probeLater(): void {
    this.#options.scheduler.after(this.#breaker.probeInMs(), () => {
      if (!this.#breaker.isOpen || this.#isClosed) return
      this.#breaker.onProbe()
      void this.pollTime()
      this.probeLater()
    })
  }

  private async pollTimeIfIdle(): Promise<void> {
    const sinceMs = this.#options.nowMs() - this.clock.learntMs
    if (sinceMs >= TIME_EVERY_MS / 2 || !this.clock.isKnown) await this.pollTime()
  }

  private async pollTime(): Promise<void> {
    try {
      await this.execute({ verb: 'time' })
    } catch {
      // It is requested again.
    }
  }
}

class NoReplyError extends SluiceError {
  readonly silence: Silence

  constructor(verb: string, silence: Silence) {
    const what = silence === 'not-run' ? 'was not done' : 'may or may not have been done'
    super('STORE_FAILED', `The store did not answer: the ${verb} ${what}`)
    this.silence = silence
  }
}
