/**
 * The space-saving sketch of Metwally, Agrawal and El Abbadi: finds the callers with the highest
 * counts in a stream of far more callers than it stores.
 *
 * When all places are taken, a new caller replaces one with the smallest count and inherits that
 * count as its possible error. So a count is never too low and at most `error` too high, and every
 * caller with more than 1/64 of the total is included.
 *
 * Counts only grow, so a place that equals the smallest count found is still the smallest. A cursor
 * moves from one such place to the next and searches for a new smallest count when none is left:
 * in a flood of one-time callers that takes a step or two per call.
 */
import { CallerIndex } from './caller-index.js'

export const SKETCH_SIZE = 64
/** A sketch belongs to one rule, so the rule number in the index is constant. */
const RULE = 0

export class SpaceSaving {
  readonly #index = new CallerIndex(SKETCH_SIZE)
  readonly #counts = new Float64Array(SKETCH_SIZE)
  readonly #errors = new Float64Array(SKETCH_SIZE)
  readonly #lastMs = new Float64Array(SKETCH_SIZE)
  readonly #labels: (string | undefined)[] = Array.from({ length: SKETCH_SIZE }, () => undefined)
  /** The last counted call as text; undefined if this sketch keeps no calls. */
  readonly #calls: (string | undefined)[] | undefined
  #size = 0
  /** No count is smaller. Places before the cursor have larger counts. */
  #smallest = 0
  #cursor = SKETCH_SIZE

  constructor(keepsCalls = false) {
    this.#calls = keepsCalls ? Array.from({ length: SKETCH_SIZE }, () => undefined) : undefined
  }

  get size(): number {
    return this.#size
  }

  /** The maximum count of a caller without a place. */
  get floor(): number {
    return this.#size < SKETCH_SIZE ? 0 : this.countAt(this.leastPlace())
  }

  /**
   * Returns a place that needs a label, or -1. Labels are expensive, so a caller that replaced
   * another gets one only when it is seen again, which most callers of a flood never are. If calls
   * are kept, the place is also returned for the first call of a caller in each tick.
   */
  add(hi: number, lo: number, amount: number, nowMs: number): number {
    const place = this.#index.find(RULE, hi, lo)
    if (place === -1) return this.insert(hi, lo, amount, nowMs)
    this.#counts[place] = this.countAt(place) + amount
    const isNextTick = this.#calls !== undefined && this.#lastMs[place] !== nowMs
    this.#lastMs[place] = nowMs
    return isNextTick || this.#labels[place] === undefined ? place : -1
  }

  /** Returns the place of a caller, or -1. */
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
