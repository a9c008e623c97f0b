/**
 * The store of a fleet: the real counters of the memory store, with its own clock. It records its
 * operations, so that a lagging replica can be made from them.
 */
import type { Outcome, Take } from '@sluice/core'
import { type Answer, type Groups, type MemoryStore, memoryStore } from '@sluice/limiter'
import type { Agenda } from './agenda.js'
import { DriftingClock } from './drifting-clock.js'
import type { Operation, Beat, Reply, Request } from './requests.js'

/** More than any scenario has. */
const COUNTERS_MAX = 4096

/** An operation of the store, and its result. */
export interface Execution {
  readonly request: Request
  readonly trueUs: number
  readonly storeUs: number
  readonly reply: Reply
}

export interface SimServerOptions {
  readonly agenda: Agenda
  readonly clockUs: number
  readonly driftPpm: number
  readonly onExecution: (done: Execution) => void
}

export class SimServer {
  readonly #options: SimServerOptions
  readonly #agenda: Agenda
  #clock: DriftingClock
  #store: MemoryStore
  /** Set while operations are replayed on a replica. */
  #replayedUs: number | undefined
  #executions: Execution[] = []
  #fleet = new Map<string, number>()
  #pausedUntilUs = 0

  constructor(options: SimServerOptions) {
    this.#options = options
    this.#agenda = options.agenda
    const { nowUs } = options.agenda
    this.#clock = new DriftingClock(nowUs, options.clockUs, options.driftPpm)
    this.#store = this.emptyStore()
  }

  /** Its clock, in whole microseconds. */
  nowUs(): number {
    return this.#replayedUs ?? Math.floor(this.#clock.read(this.#agenda.nowUs))
  }

  get counters(): MemoryStore {
    return this.#store
  }

  /** When a request that arrives now is processed. */
  get readyUs(): number {
    return Math.max(this.#agenda.nowUs, this.#pausedUntilUs)
  }

  handle(request: Request): Reply {
    const storeUs = this.nowUs()
    const isLate = request.notAfter > 0 && storeUs > request.notAfter
    const result = isLate ? {} : this.perform(request)
    const reply = { storeUs, late: isLate, ...result }
    const done = { request, trueUs: this.#agenda.nowUs, storeUs, reply }
    if (!isLate && isWrite(request.operation)) this.#executions.push(done)
    this.#options.onExecution(done)
    return reply
  }

  pause(forUs: number): void {
    this.#pausedUntilUs = Math.max(this.#pausedUntilUs, this.#agenda.nowUs + forUs)
  }

  jump(byUs: number): void {
    this.#clock.jump(this.#agenda.nowUs, byUs)
  }

  /** A replica takes over that has all but the last `lagUs`. Returns what is lost by that. */
  failOver(lagUs: number, clockUs: number): readonly Execution[] {
    const { nowUs } = this.#agenda
    const replicated = this.#executions.filter(({ trueUs }) => trueUs <= nowUs - lagUs)
    const undone = this.#executions.slice(replicated.length)
    this.#store = this.emptyStore()
    this.#fleet = new Map()
    for (const { request, storeUs } of replicated) {
      this.#replayedUs = storeUs
      this.perform(request)
    }
    this.#replayedUs = undefined
    this.#executions = replicated
    this.#clock = new DriftingClock(
      nowUs,
      this.#clock.read(nowUs) + clockUs,
      this.#options.driftPpm,
    )
    return undone
  }

  private emptyStore(): MemoryStore {
    return memoryStore({ maxCounters: COUNTERS_MAX, clock: { now: () => this.nowUs() } })
  }

  private perform({ node, operation }: Request): Partial<Reply> {
    const { sync } = this.#store
    if (operation.verb === 'take') return { answers: this.take(operation.groups, operation.states) }
    if (operation.verb === 'peek') return { peeked: sync.peek(operation.groups) }
    if (operation.verb === 'give') sync.give(operation.give)
    else if (operation.verb === 'charge') sync.charge(operation.charge)
    else if (operation.verb === 'reset') sync.reset(operation.key)
    else if (operation.verb === 'beat') return { beat: this.beat(node, operation.lifeMs) }
    return {}
  }

  /**
   * States are returned as Redis returns them: where the limit refused, or where they were
   * requested.
   */
  private take(groups: Groups<Take>, states: boolean): Groups<Answer> {
    const outcomes = this.#store.sync.take(groups)
    const includesState = (outcome: Outcome, { limit }: Take) =>
      states || (outcome.retryAfterMs !== 0 && limit.algorithm !== 'sliding-window-log')
    return outcomes.map((row, g) =>
      row.map((outcome, i) => {
        const take = groups[g]?.[i]
        const plain = wireOutcome(outcome)
        if (take === undefined || !includesState(outcome, take)) return plain
        const [[peeked] = []] = this.#store.sync.peek([[{ ...take, amount: 0 }]])
        return { ...plain, state: peeked?.state }
      }),
    )
  }

  private beat(node: string, lifeMs: number): Beat {
    const nowUs = this.nowUs()
    const wasKnown = (this.#fleet.get(node) ?? 0) > nowUs
    this.#fleet.set(node, nowUs + lifeMs * 1000)
    for (const [name, endsUs] of this.#fleet) if (endsUs <= nowUs) this.#fleet.delete(name)
    const names = [...this.#fleet.keys()].sort()
    return { nodes: names.length, wasKnown, place: Math.max(0, names.indexOf(node)) }
  }
}

/** Internal fields of an algorithm are not sent. */
function wireOutcome({
  granted,
  remaining,
  resetAfterMs,
  retryAfterMs,
  delayMs,
  at,
}: Outcome): Outcome {
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at }
}

function isWrite({ verb }: Operation): boolean {
  return verb !== 'peek' && verb !== 'time'
}
