/** The ring of the workers of one server, as a worker sees it: their counters are in memory. */
import { join } from 'node:path'
import type { Member, MemberList } from '@sluice/limiter/ring'

export interface WorkerRingDeps {
  /** The folder of the sockets, which only this user may open. */
  readonly directory: string
  readonly place: number
  readonly sendJoin: () => void
  readonly sendLeave: () => void
}

/** A worker leaves without an answer of the first process after this time. */
const LEAVE_MS_MAX = 1000

export class WorkerRing implements MemberList {
  /** This worker. */
  readonly self: Member
  readonly #deps: WorkerRingDeps
  readonly #listeners: (() => void)[] = []
  #members: readonly Member[] = []
  #isLeaving = false
  #onLeft = () => {}

  constructor(deps: WorkerRingDeps) {
    this.#deps = deps
    this.self = this.memberAt(deps.place)
  }

  members(): readonly Member[] {
    return this.#members
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  join(): void {
    this.#deps.sendJoin()
  }

  leave(): Promise<void> {
    this.#isLeaving = true
    this.#deps.sendLeave()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, LEAVE_MS_MAX)
      this.#onLeft = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** Takes the list of the first process: the places of all members. */
  update(places: readonly number[]): void {
    this.#members = places.map((place) => this.memberAt(place))
    for (const listener of this.#listeners) listener()
    if (this.#isLeaving && !places.includes(this.#deps.place)) this.#onLeft()
  }

  private memberAt(place: number): Member {
    const path = join(this.#deps.directory, `${place}.sock`)
    return { name: `worker-${place}`, address: { path } }
  }
}
