/**
 * Which step of time a count belongs to. Steps begin at multiples of their length since 1970, so
 * that those of all nodes fall together; the wall clock that tells them may be put back or ahead.
 */

/** After a longer time without a look nobody knows when what was counted came. */
const GAP_BUCKETS_MAX = 2

export class BucketClock {
  readonly bucketMs: number
  /** When counts were last taken; only a clock that was put back makes it less. */
  #countedMs: number
  #firstBucket: number

  constructor(bucketMs: number, nowMs: number) {
    this.bucketMs = bucketMs
    this.#countedMs = nowMs
    this.#firstBucket = this.numberOf(nowMs)
  }

  /** The first step that was seen, though perhaps not from its beginning. */
  get firstBucket(): number {
    return this.#firstBucket
  }

  /** The first step that is not complete: what is counted from now on belongs to it, or later. */
  get end(): number {
    return this.numberOf(this.#countedMs)
  }

  /**
   * The step of what was counted since the last time. Less than `end` before: the clock was put
   * back, and steps from there on, which lie ahead now, have to be forgotten.
   */
  advance(nowMs: number): number {
    const previousMs = this.#countedMs
    const end = this.end
    if (nowMs < previousMs) {
      // A clock that is only set right by a little stands still here until it has caught up.
      if (this.numberOf(nowMs) >= end - 1) return end
      this.#countedMs = nowMs
      this.#firstBucket = Math.min(this.#firstBucket, this.end)
      return this.end
    }
    this.#countedMs = nowMs
    // Looked at every second, the middle is where most of it came.
    const isNear = nowMs - previousMs <= GAP_BUCKETS_MAX * this.bucketMs
    return this.numberOf(isNear ? (previousMs + nowMs) / 2 : nowMs)
  }

  private numberOf(ms: number): number {
    return Math.floor(ms / this.bucketMs)
  }
}

/** Some counts for each of the last steps: as many complete ones as are kept, and one under way. */
export class BucketCounts {
  readonly #capacity: number
  readonly #width: number
  /** Those of a step beside each other; what lies ahead of `#last` means nothing. */
  readonly #counts: Uint32Array
  /** The latest step that was counted into. */
  #last: number

  constructor(options: {
    readonly capacity: number
    readonly width: number
    readonly bucket: number
  }) {
    this.#capacity = options.capacity
    this.#width = options.width
    this.#counts = new Uint32Array((options.capacity + 1) * options.width)
    this.#last = options.bucket
  }

  /** Makes ready to count into a step. Those that were passed over had nothing. */
  advanceTo(bucket: number): void {
    if (bucket < this.#last) this.rewind(bucket)
    const from = Math.max(this.#last + 1, bucket - this.#capacity)
    for (let each = from; each <= bucket; each++) this.clear(each)
    this.#last = bucket
  }

  /** Forgets this step and what lies ahead of it: the clock was put back. */
  rewind(bucket: number): void {
    if (bucket > this.#last) return
    const from = Math.max(bucket, this.#last - this.#capacity)
    for (let each = from; each <= this.#last; each++) this.clear(each)
    this.#last = bucket
  }

  /** To a step that was reached. */
  add(bucket: number, field: number, count: number): void {
    const place = this.placeOf(bucket) + field
    this.#counts[place] = (this.#counts[place] ?? 0) + count
  }

  /** 0 for a step that is not kept, or not reached. */
  at(bucket: number, field: number): number {
    if (bucket > this.#last || bucket < this.#last - this.#capacity) return 0
    return this.#counts[this.placeOf(bucket) + field] ?? 0
  }

  private clear(bucket: number): void {
    const place = this.placeOf(bucket)
    this.#counts.fill(0, place, place + this.#width)
  }

  private placeOf(bucket: number): number {
    return (bucket % (this.#capacity + 1)) * this.#width
  }
}
