/**
 * Assigns counts to time buckets. Buckets begin at multiples of their length since 1970, so that
 * those of all nodes coincide. The wall clock may be set back or forward.
 */

/** After a longer gap between ticks it is unknown when the counts arose. */
const GAP_BUCKETS_MAX = 2

export class BucketClock {
  readonly bucketMs: number
  /** When counts were last taken; decreases only if the clock is set back. */
  #countedMs: number
  #firstBucket: number

  constructor(bucketMs: number, nowMs: number) {
    this.bucketMs = bucketMs
    this.#countedMs = nowMs
    this.#firstBucket = this.numberOf(nowMs)
  }

  /** The first bucket, which may be incomplete. */
  get firstBucket(): number {
    return this.#firstBucket
  }

  /** The first bucket that is not complete. */
  get end(): number {
    return this.numberOf(this.#countedMs)
  }

  /**
   * Returns the bucket for the counts since the last call. If it is less than the previous `end`,
   * the clock was set back, and buckets from there on must be forgotten.
   */
  advance(nowMs: number): number {
    const previousMs = this.#countedMs
    const end = this.end
    if (nowMs < previousMs) {
      // A small correction is ignored until the clock has caught up.
      if (this.numberOf(nowMs) >= end - 1) return end
      this.#countedMs = nowMs
      this.#firstBucket = Math.min(this.#firstBucket, this.end)
      return this.end
    }
    this.#countedMs = nowMs
    // With a tick every second, most counts arose around the middle.
    const isNear = nowMs - previousMs <= GAP_BUCKETS_MAX * this.bucketMs
    return this.numberOf(isNear ? (previousMs + nowMs) / 2 : nowMs)
  }

  private numberOf(ms: number): number {
    return Math.floor(ms / this.bucketMs)
  }
}

/** A ring of counts for the last `capacity` complete buckets and the current one. */
export class BucketCounts {
  readonly #capacity: number
  readonly #width: number
  /** The counts of a bucket are adjacent; buckets after `#last` are undefined. */
  readonly #counts: Uint32Array
  /** The latest bucket. */
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

  /** Prepares counting into a bucket; skipped buckets are empty. */
  advanceTo(bucket: number): void {
    if (bucket < this.#last) this.rewind(bucket)
    const from = Math.max(this.#last + 1, bucket - this.#capacity)
    for (let each = from; each <= bucket; each++) this.clear(each)
    this.#last = bucket
  }

  /** Forgets this bucket and later ones, after the clock was set back. */
  rewind(bucket: number): void {
    if (bucket > this.#last) return
    const from = Math.max(bucket, this.#last - this.#capacity)
    for (let each = from; each <= this.#last; each++) this.clear(each)
    this.#last = bucket
  }

  /** Adds to a bucket that `advanceTo` has reached. */
  add(bucket: number, field: number, count: number): void {
    const place = this.placeOf(bucket) + field
    this.#counts[place] = (this.#counts[place] ?? 0) + count
  }

  /** Returns 0 for a bucket that is not kept or not reached. */
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
