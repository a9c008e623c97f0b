/**
 * Which step of time a count belongs to. Steps begin at multiples of their length since 1970, so
 * that those of all nodes fall together; the wall clock that tells them may be put back or ahead.
 */

/** After a longer time without a look nobody knows when what was counted came. */
const GAP_STEPS_MAX = 2

export class StepClock {
  readonly stepMs: number
  /** When counts were last taken; only a clock that was put back makes it less. */
  #takenMs: number
  #beganAt: number

  constructor(stepMs: number, nowMs: number) {
    this.stepMs = stepMs
    this.#takenMs = nowMs
    this.#beganAt = this.numberOf(nowMs)
  }

  /** The first step that was seen, though perhaps not from its beginning. */
  get beganAt(): number {
    return this.#beganAt
  }

  /** The first step that is not complete: what is counted from now on belongs to it, or later. */
  get end(): number {
    return this.numberOf(this.#takenMs)
  }

  /**
   * The step of what was counted since the last time. Less than `end` before: the clock was put
   * back, and steps from there on, which lie ahead now, have to be forgotten.
   */
  advance(nowMs: number): number {
    const before = this.#takenMs
    const end = this.end
    if (nowMs < before) {
      // A clock that is only set right by a little stands still here until it has caught up.
      if (this.numberOf(nowMs) >= end - 1) return end
      this.#takenMs = nowMs
      this.#beganAt = Math.min(this.#beganAt, this.end)
      return this.end
    }
    this.#takenMs = nowMs
    // Looked at every second, the middle is where most of it came.
    const isNear = nowMs - before <= GAP_STEPS_MAX * this.stepMs
    return this.numberOf(isNear ? (before + nowMs) / 2 : nowMs)
  }

  private numberOf(ms: number): number {
    return Math.floor(ms / this.stepMs)
  }
}

/** Some counts for each of the last steps: as many complete ones as are kept, and one under way. */
export class StepCounts {
  readonly #kept: number
  readonly #width: number
  /** Those of a step beside each other; what lies ahead of `#last` means nothing. */
  readonly #counts: Uint32Array
  /** The latest step that was counted into. */
  #last: number

  constructor(options: { readonly kept: number; readonly width: number; readonly step: number }) {
    this.#kept = options.kept
    this.#width = options.width
    this.#counts = new Uint32Array((options.kept + 1) * options.width)
    this.#last = options.step
  }

  /** Makes ready to count into a step. Those that were passed over had nothing. */
  reach(step: number): void {
    if (step < this.#last) this.rewind(step)
    const from = Math.max(this.#last + 1, step - this.#kept)
    for (let each = from; each <= step; each++) this.clear(each)
    this.#last = step
  }

  /** Forgets this step and what lies ahead of it: the clock was put back. */
  rewind(step: number): void {
    if (step > this.#last) return
    const from = Math.max(step, this.#last - this.#kept)
    for (let each = from; each <= this.#last; each++) this.clear(each)
    this.#last = step
  }

  /** To a step that was reached. */
  add(step: number, field: number, count: number): void {
    const place = this.placeOf(step) + field
    this.#counts[place] = (this.#counts[place] ?? 0) + count
  }

  /** 0 for a step that is not kept, or not reached. */
  at(step: number, field: number): number {
    if (step > this.#last || step < this.#last - this.#kept) return 0
    return this.#counts[this.placeOf(step) + field] ?? 0
  }

  private clear(step: number): void {
    const place = this.placeOf(step)
    this.#counts.fill(0, place, place + this.#width)
  }

  private placeOf(step: number): number {
    return (step % (this.#kept + 1)) * this.#width
  }
}
