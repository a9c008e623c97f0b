/** When those who know the topology are asked about it: one round after the other, for ever. */

const WELL_MS = 5000
const UNWELL_MS = 250
/** However many want to know, so long passes between one round and the next. */
const HURRY_MS = 25
/** A round that nobody ends is over after so long. */
const ROUND_MS_MAX = 1000

export interface TopologyRoundsParts {
  /** Asks, and calls `done` when it knows more, or when nobody answers. */
  ask(done: () => void): void
  /** Whether nothing is missing, so that there is time until the next round. */
  isWell(): boolean
}

export class TopologyRounds {
  readonly #random: () => number
  readonly #parts: TopologyRoundsParts
  readonly #wellMs: number
  #timer: ReturnType<typeof setTimeout> | undefined
  #round = 0
  #isAsking = false
  #isHurried = false
  #isClosed = false

  constructor(random: () => number, parts: TopologyRoundsParts, wellMs = WELL_MS) {
    this.#random = random
    this.#parts = parts
    this.#wellMs = wellMs
  }

  /** Somebody has reason to believe that things have changed. */
  hurry(): void {
    if (this.#isClosed || this.#isHurried) return
    this.#isHurried = true
    if (!this.#isAsking) this.next(HURRY_MS)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  private next(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.ask(), ms)
  }

  private ask(): void {
    this.#isAsking = true
    this.#isHurried = false
    this.#round += 1
    const round = this.#round
    const done = () => {
      if (round === this.#round && this.#isAsking && !this.#isClosed) this.asked()
    }
    this.#timer = setTimeout(done, ROUND_MS_MAX)
    this.#parts.ask(done)
  }

  private asked(): void {
    this.#isAsking = false
    const usual = this.#parts.isWell() ? this.#wellMs : UNWELL_MS
    // Nodes that saw the same change must not ask at the same moments ever after.
    this.next(this.#isHurried ? HURRY_MS : usual * (0.75 + this.#random() / 2))
  }
}
