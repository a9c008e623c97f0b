/**
 * Decides when the addresses are printed: once all workers are ready. The system frees a port that
 * it chose when the last worker behind it exits, and the next worker gets another port. With all
 * workers behind it, the printed port stays valid when one exits.
 */

/**
 * How many checks the first ready worker waits for the others. On a machine with few cores 64
 * workers become ready over tens of seconds.
 */
const WAITING_CHECKS_MAX = 60

export interface AnnouncementOptions {
  /** How many workers are started. */
  readonly count: number
  /** Called once. The text is that of the first ready worker. */
  readonly onListening: (text: string) => void
  /** Called before `onListening` if some workers were waited for in vain. */
  readonly onLate: (late: { readonly ready: number; readonly count: number }) => void
}

export class Announcement<Worker> {
  readonly #options: AnnouncementOptions
  /** The text of each ready worker; undefined once one was printed. */
  #texts: Map<Worker, string> | undefined = new Map()
  /** How many workers must be ready. */
  #needed: number
  #checks = 0

  constructor(options: AnnouncementOptions) {
    this.#options = options
    this.#needed = options.count
  }

  addReady(worker: Worker, text: string): void {
    this.#texts?.set(worker, text)
    this.announce()
  }

  remove(worker: Worker): void {
    this.#texts?.delete(worker)
  }

  /** Waits for no other worker: the replacement of one that exited may never become ready. */
  stopWaiting(): void {
    this.#needed = 1
    this.announce()
  }

  /** Call once per heartbeat. A worker that neither becomes ready nor exits is not waited for. */
  check(): void {
    const ready = this.#texts?.size ?? 0
    if (ready === 0 || ++this.#checks < WAITING_CHECKS_MAX) return
    this.#options.onLate({ ready, count: this.#options.count })
    this.stopWaiting()
  }

  private announce(): void {
    const [text] = this.#texts?.values() ?? []
    if (text === undefined || (this.#texts?.size ?? 0) < this.#needed) return
    this.#texts = undefined
    this.#options.onListening(text)
  }
}
