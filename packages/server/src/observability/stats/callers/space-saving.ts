/**
 * The callers with most of something, from a stream of far more callers than can be kept: the
 * space-saving sketch of Metwally, Agrawal and El Abbadi.
 *
 * Whoever is new when all places are taken gets the place of one with the smallest count, and that
 * count as what it may have had before. So a figure is never too low, at most `error` too high, and
 * everybody with more than a 64th of the total is here.
 *
 * Counts only grow, so whatever equals the smallest count once found is the smallest still. A
 * cursor goes from one such place to the next, and looks for a new smallest count when none is
 * left: in a flood of callers that each come once that is a step or two a call.
 */
import { CallerIndex } from './caller-index.js'

export const SKETCH_SIZE = 64
/** A sketch is of one rule. */
const RULE = 0

export class SpaceSaving {
  readonly #index = new CallerIndex(SKETCH_SIZE)
  readonly #counts = new Float64Array(SKETCH_SIZE)
  readonly #errors = new Float64Array(SKETCH_SIZE)
  readonly #lastMs = new Float64Array(SKETCH_SIZE)
  readonly #labels: (string | undefined)[] = Array.from({ length: SKETCH_SIZE }, () => undefined)
  /** The call that was counted last, as text; undefined: this sketch keeps none. */
  readonly #calls: (string | undefined)[] | undefined
  #size = 0
  /** No count is smaller. Places before the cursor have more. */
  #smallest = 0
  #cursor = SKETCH_SIZE

  constructor(keepsCalls = false) {
    this.#calls = keepsCalls ? Array.from({ length: SKETCH_SIZE }, () => undefined) : undefined
  }

  get size(): number {
    return this.#size
  }

  /** The most that a caller without a place can have. */
  get floor(): number {
    return this.#size < SKETCH_SIZE ? 0 : this.countAt(this.leastPlace())
  }

  /**
   * Returns a place whose caller wants a name, or -1. A name is dear, so callers that took the
   * place of another get theirs when they are seen again: most of a flood never are. Where calls
   * are kept, a caller that is seen for the first time in a tick wants its call told anew.
   */
  add(hi: number, lo: number, amount: number, nowMs: number): number {
    const place = this.#index.find(RULE, hi, lo)
    if (place === -1) return this.insert(hi, lo, amount, nowMs)
    this.#counts[place] = this.countAt(place) + amount
    const isNextTick = this.#calls !== undefined && this.#lastMs[place] !== nowMs
    this.#lastMs[place] = nowMs
    return isNextTick || this.#labels[place] === undefined ? place : -1
  }

  /** The place of a caller, or -1. */
  find(hi: number, lo: number): number {
    return this.#index.find(RULE, hi, lo)
  }

  hiAt(place: number): number {
    return this.#index.hiAt(place)
  }

  loAt(place: number): number {
    return this.#index.loAt(place)
  }

  countAt(place: number): number {
    return this.#counts[place] ?? 0
  }

  errorAt(place: number): number {
    return this.#errors[place] ?? 0
  }

  lastMsAt(place: number): number {
    return this.#lastMs[place] ?? 0
  }

  labelAt(place: number): string | undefined {
    return this.#labels[place]
  }

  setLabel(place: number, label: string): void {
    this.#labels[place] = label
  }

  callAt(place: number): string | undefined {
    return this.#calls?.[place]
  }

  setCall(place: number, call: string | undefined): void {
    if (this.#calls !== undefined) this.#calls[place] = call
  }

  clear(): void {
    this.#size = 0
    this.#cursor = SKETCH_SIZE
    this.#index.clear()
    this.#labels.fill(undefined)
    this.#calls?.fill(undefined)
  }

  private insert(hi: number, lo: number, amount: number, nowMs: number): number {
    const isCrowded = this.#size === SKETCH_SIZE
    const place = isCrowded ? this.findSmallest() : this.#size++
    const floor = isCrowded ? this.#smallest : 0
    if (isCrowded) {
      this.#index.remove(place)
      this.#labels[place] = undefined
      this.setCall(place, undefined)
    }
    this.#index.insert(place, RULE, hi, lo)
    this.#counts[place] = floor + amount
    this.#errors[place] = floor
    this.#lastMs[place] = nowMs
    return isCrowded ? -1 : place
  }

  private findSmallest(): number {
    const counts = this.#counts
    const smallest = this.#smallest
    for (let place = this.#cursor; place < SKETCH_SIZE; place++) {
      if (counts[place] !== smallest) continue
      this.#cursor = place + 1
      return place
    }
    const found = this.leastPlace()
    this.#smallest = this.countAt(found)
    this.#cursor = found + 1
    return found
  }

  private leastPlace(): number {
    const counts = this.#counts
    let found = 0
    let least = counts[0] ?? 0
    for (let place = 1; place < SKETCH_SIZE; place++) {
      const count = counts[place] ?? 0
      if (count >= least) continue
      least = count
      found = place
    }
    return found
  }
}
