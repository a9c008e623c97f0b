/**
 * The one store of a fleet: the real counters of the memory store, by a clock of its own. What it
 * did is kept, so that a replica that lags behind can be made of it.
 */
import type { Outcome, Take } from '@sluice/core'
import { type Answer, type Groups, type MemoryStore, memoryStore } from '@sluice/limiter'
import type { Agenda } from './agenda.js'
import { DriftingClock } from './drifting-clock.js'
import type { Asked, Beat, Reply, Request } from './requests.js'

/** More than any scenario has. */
const COUNTERS_MAX = 4096

/** What the store did, and what came of it. */
export interface Done {
  readonly request: Request
  readonly trueUs: number
  readonly storeUs: number
  readonly reply: Reply
}

export interface ServerOptions {
  readonly agenda: Agenda
  readonly clockUs: number
  readonly driftPpm: number
  readonly onDone: (done: Done) => void
}

export class Server {
  readonly #options: ServerOptions
  readonly #agenda: Agenda
  #clock: DriftingClock
  #store: MemoryStore
  /** Set while what was done is done again on a replica. */
  #replayedUs: number | undefined
  #done: Done[] = []
  #fleet = new Map<string, number>()
  #pausedUntilUs = 0

  constructor(options: ServerOptions) {
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

  /** When a request that arrives now is looked at. */
  get readyUs(): number {
    return Math.max(this.#agenda.nowUs, this.#pausedUntilUs)
  }

  handle(request: Request): Reply {
    const storeUs = this.nowUs()
    const isLate = request.notAfter > 0 && storeUs > request.notAfter
    const said = isLate ? {} : this.perform(request)
    const reply = { storeUs, late: isLate, ...said }
    const done = { request, trueUs: this.#agenda.nowUs, storeUs, reply }
    if (!isLate && changes(request.asked)) this.#done.push(done)
    this.#options.onDone(done)
    return reply
  }

  pause(forUs: number): void {
    this.#pausedUntilUs = Math.max(this.#pausedUntilUs, this.#agenda.nowUs + forUs)
  }

  jump(byUs: number): void {
    this.#clock.jump(this.#agenda.nowUs, byUs)
  }

  /** A replica takes over that has seen all but the last `lagUs`. Says what is undone by that. */
  failOver(lagUs: number, clockUs: number): readonly Done[] {
    const { nowUs } = this.#agenda
    const kept = this.#done.filter(({ trueUs }) => trueUs <= nowUs - lagUs)
    const undone = this.#done.slice(kept.length)
    this.#store = this.emptyStore()
    this.#fleet = new Map()
    for (const { request, storeUs } of kept) {
      this.#replayedUs = storeUs
      this.perform(request)
    }
    this.#replayedUs = undefined
    this.#done = kept
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

  private perform({ node, asked }: Request): Partial<Reply> {
    const { sync } = this.#store
    if (asked.verb === 'take') return { answers: this.take(asked.groups, asked.states) }
    if (asked.verb === 'peek') return { peeked: sync.peek(asked.groups) }
    if (asked.verb === 'give') sync.give(asked.give)
    else if (asked.verb === 'charge') sync.charge(asked.charge)
    else if (asked.verb === 'reset') sync.reset(asked.key)
    else if (asked.verb === 'beat') return { beat: this.beat(node, asked.lifeMs) }
    return {}
  }

  /** States are told as Redis tells them: where the limit refused, or where they were asked for. */
  private take(groups: Groups<Take>, states: boolean): Groups<Answer> {
    const outcomes = this.#store.sync.take(groups)
    const tells = (outcome: Outcome, { limit }: Take) =>
      states || (outcome.retryAfterMs !== 0 && limit.algorithm !== 'sliding-window-log')
    return outcomes.map((row, g) =>
      row.map((outcome, i) => {
        const take = groups[g]?.[i]
        const plain = told(outcome)
        if (take === undefined || !tells(outcome, take)) return plain
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

/** What the algorithm keeps to itself does not travel. */
function told({ granted, remaining, resetAfterMs, retryAfterMs, delayMs, at }: Outcome): Outcome {
  return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at }
}

function changes({ verb }: Asked): boolean {
  return verb !== 'peek' && verb !== 'time'
}
