/**
 * Leased counters by key, in two generations: when the younger is full or old, the older is
 * dropped, and counters used since have moved to the younger. A flood of new callers thus drops
 * idle callers, never active ones.
 */
import type { CounterKey } from '@sluice/core'
import type { LeasedCounter } from './leased-counter.js'

/** At most two generations of counters are kept. */
const GENERATION_MAX = 50_000
/** Far above the longest lease: a counter idle for that long has no rate. */
const GENERATION_MS = 10_000

/**
 * Indexed by the lower half of the key, so that a lookup builds no string. Collisions are chained.
 */
type Generation = Map<number, LeasedCounter>

export class LeasedCounters {
  readonly #max: number
  #young: Generation = new Map()
  #old: Generation = new Map()
  #youngSize = 0
  #oldSize = 0
  #rotatedMs = 0

  constructor(generationMax = GENERATION_MAX) {
    this.#max = generationMax
  }

  get size(): number {
    return this.#youngSize + this.#oldSize
  }

  find(key: CounterKey): LeasedCounter | undefined {
    let counter = this.#young.get(key.lo)
    while (counter !== undefined && counter.key.hi !== key.hi) counter = counter.next
    return counter ?? this.findOld(key)
  }

  /** Adds a counter that is not in the map yet. */
  add(counter: LeasedCounter, nowMs: number): void {
    if (nowMs - this.#rotatedMs >= GENERATION_MS) {
      this.#rotatedMs = nowMs
      this.rotate()
    }
    this.insert(counter)
  }

  private insert(counter: LeasedCounter): void {
    if (this.#youngSize >= this.#max) this.rotate()
    this.link(counter)
  }

  private link(counter: LeasedCounter): void {
    counter.next = this.#young.get(counter.key.lo)
    this.#young.set(counter.key.lo, counter)
    this.#youngSize += 1
  }

  /** Moves the counter it finds to the younger generation. */
  private findOld({ hi, lo }: CounterKey): LeasedCounter | undefined {
    let before: LeasedCounter | undefined
    let counter = this.#old.get(lo)
    while (counter !== undefined && counter.key.hi !== hi) {
      before = counter
      counter = counter.next
    }
    if (counter === undefined) return undefined
    if (before !== undefined) before.next = counter.next
    else if (counter.next !== undefined) this.#old.set(lo, counter.next)
    else this.#old.delete(lo)
    this.#oldSize -= 1
    this.insert(counter)
    return counter
  }

  /** Keeps busy counters of the dropped generation; they are few. */
  private rotate(): void {
    const forgotten = this.#old
    this.#old = this.#young
    this.#oldSize = this.#youngSize
    this.#young = new Map()
    this.#youngSize = 0
    for (const first of forgotten.values()) {
      let counter: LeasedCounter | undefined = first
      while (counter !== undefined) {
        const { next }: LeasedCounter = counter
        if (counter.isBusy) this.link(counter)
        counter = next
      }
    }
  }
}
