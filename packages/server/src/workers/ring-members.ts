/**
 * Which workers hold counters in memory, as the first process knows it: the list of members of
 * their ring. A worker is in it from the moment it can be asked until it exits or leaves.
 */

/** A worker that leaves is told only after this time whether the others stay. */
const LEAVE_AFTER_MS = 100

export interface RingMembersOptions<Worker> {
  /** Sends the places of the members to one worker. */
  readonly send: (worker: Worker, places: readonly number[]) => void
  /** All workers that are alive. */
  readonly workers: () => readonly Worker[]
}

export class RingMembers<Worker> {
  readonly #options: RingMembersOptions<Worker>
  readonly #places = new Map<Worker, number>()
  #isStopping = false

  constructor(options: RingMembersOptions<Worker>) {
    this.#options = options
  }

  /** The last messages of a worker may arrive after its exit. */
  join(worker: Worker, place: number): void {
    if (!this.#options.workers().includes(worker)) return
    this.#places.set(worker, place)
    this.sendAll()
  }

  /**
   * A worker ends and wants to hand its counters over. If all workers end, a signal of the terminal
   * reaches them before this process stops them; then none of them stays to take counters.
   */
  leave(worker: Worker): void {
    setTimeout(() => this.remove(worker), LEAVE_AFTER_MS).unref()
  }

  /** A worker has exited, or has left. */
  remove(worker: Worker): void {
    this.#places.delete(worker)
    this.sendAll()
  }

  /** All workers end, so none takes counters of another. */
  stop(): void {
    this.#isStopping = true
    this.sendAll()
  }

  private sendAll(): void {
    const places = this.#isStopping ? [] : [...this.#places.values()]
    for (const worker of this.#options.workers()) this.#options.send(worker, places)
  }
}
