/** The top callers of one rule by one figure, in the current and the previous period. */
import type { Hash64 } from '@sluice/core'
import { SKETCH_SIZE, SpaceSaving } from './space-saving.js'

/** Scratch memory of `highest`. */
const counts = new Float64Array(2 * SKETCH_SIZE)
/** Marks a caller that is already counted. */
const ALREADY_COUNTED = -1

/** Assigns sketches to rules, because there are fewer sketches than rules. */
export interface SlotAllocator {
  /** Returns whether the rule gets a sketch now; otherwise it is queued. */
  acquire(top: RuleTop): boolean
}

interface Estimate {
  /** Never too low, and at most `error` too high. */
  readonly count: number
  readonly error: number
}

export class RuleTop {
  /** Recorded decisions in the current and in the previous period. */
  activity = 0
  previousActivity = 0
  isWaiting = false
  readonly #slots: SlotAllocator
  readonly #keepsCalls: boolean
  #present: SpaceSaving | undefined
  #previous: SpaceSaving | undefined

  /** With `keepsCalls`, the last call of each caller is kept. */
  constructor(slots: SlotAllocator, keepsCalls = false) {
    this.#slots = slots
    this.#keepsCalls = keepsCalls
  }

  get recentActivity(): number {
    return this.activity + this.previousActivity
  }

  get hasSketch(): boolean {
    return this.#present !== undefined
  }

  /** Callers in both sketches. */
  get size(): number {
    return (this.#present?.size ?? 0) + (this.#previous?.size ?? 0)
  }

  /** Returns a place that needs a label, or whose call is to be updated; otherwise -1. */
  add(hi: number, lo: number, amount: number, nowMs: number): number {
    this.activity++
    if (this.#present !== undefined) return this.#present.add(hi, lo, amount, nowMs)
    if (this.isWaiting || !this.#slots.acquire(this)) return -1
    this.#present = new SpaceSaving(this.#keepsCalls)
    return this.#present.add(hi, lo, amount, nowMs)
  }

  setLabel(place: number, label: string): void {
    this.#present?.setLabel(place, label)
  }

  setCall(place: number, call: string | undefined): void {
    this.#present?.setCall(place, call)
  }

  /** The last counted call of a caller, as text; undefined if unknown. */
  callOf(hi: number, lo: number): string | undefined {
    return callIn(this.#present, hi, lo) ?? callIn(this.#previous, hi, lo)
  }

  /** The label of the current period: an older one may contain an outdated plan. */
  presentLabelOf(hi: number, lo: number): string | undefined {
    return labelIn(this.#present, hi, lo)
  }

  labelOf(hi: number, lo: number): string | undefined {
    return labelIn(this.#present, hi, lo) ?? labelIn(this.#previous, hi, lo)
  }

  /** Returns 0 for a caller in no sketch. */
  lastMsOf(hi: number, lo: number): number {
    return Math.max(lastMsIn(this.#present, hi, lo), lastMsIn(this.#previous, hi, lo))
  }

  /** A caller without a place may have had as much as the smallest one with a place. */
  estimate(hi: number, lo: number): Estimate {
    const place = this.#present?.find(hi, lo) ?? -1
    const previousPlace = this.#previous?.find(hi, lo) ?? -1
    return {
      count: countIn(this.#present, place) + countIn(this.#previous, previousPlace),
      error: errorIn(this.#present, place) + errorIn(this.#previous, previousPlace),
    }
  }

  /** The callers with the highest counts, in no order. */
  highest(limit: number): readonly Hash64[] {
    const present = this.#present
    if (present === undefined) return []
    const previous = this.#previous
    const floor = present.floor
    const previousFloor = previous?.floor ?? 0
    let size = 0
    for (let place = 0; place < present.size; place++) {
      const other = previous?.find(present.hiAt(place), present.loAt(place)) ?? -1
      const previousCount = other === -1 ? previousFloor : (previous?.countAt(other) ?? 0)
      counts[size++] = present.countAt(place) + previousCount
    }
    for (let place = 0; previous !== undefined && place < previous.size; place++) {
      const isAlone = present.find(previous.hiAt(place), previous.loAt(place)) === -1
      counts[size++] = isAlone ? floor + previous.countAt(place) : ALREADY_COUNTED
    }
    const least = counts.slice(0, size).sort()[size - limit] ?? 0
    const chosen: Hash64[] = []
    // First all above the smallest chosen count, then as many with that count as fit.
    for (let round = 0; round < 2; round++) {
      for (let at = 0; at < size && chosen.length < limit; at++) {
        const count = counts[at] ?? 0
        if (count === ALREADY_COUNTED || (round === 0 ? count <= least : count !== least)) continue
        const sketch = at < present.size ? present : previous
        const place = at < present.size ? at : at - present.size
        chosen.push({ hi: sketch?.hiAt(place) ?? 0, lo: sketch?.loAt(place) ?? 0 })
      }
    }
    return chosen
  }

  /** Begins a new period, reusing the sketch of the one before the last. */
  rotate(): void {
    this.previousActivity = this.activity
    this.activity = 0
    const present = this.#present
    if (present === undefined) return
    this.#present = this.#previous ?? new SpaceSaving(this.#keepsCalls)
    this.#present.clear()
    this.#previous = present
  }

  clear(): void {
    this.#present?.clear()
    this.#previous?.clear()
  }

  /** Releases its sketches for another rule. */
  release(): void {
    this.activity = 0
    this.previousActivity = 0
    this.#present = undefined
    this.#previous = undefined
  }
}

/** `place` is that of the caller, or -1. */
function countIn(sketch: SpaceSaving | undefined, place: number): number {
  if (sketch === undefined) return 0
  return place === -1 ? sketch.floor : sketch.countAt(place)
}

function errorIn(sketch: SpaceSaving | undefined, place: number): number {
  if (sketch === undefined) return 0
  return place === -1 ? sketch.floor : sketch.errorAt(place)
}

function labelIn(sketch: SpaceSaving | undefined, hi: number, lo: number): string | undefined {
  const place = sketch?.find(hi, lo) ?? -1
  return place === -1 ? undefined : sketch?.labelAt(place)
}

function callIn(sketch: SpaceSaving | undefined, hi: number, lo: number): string | undefined {
  const place = sketch?.find(hi, lo) ?? -1
  return place === -1 ? undefined : sketch?.callAt(place)
}

function lastMsIn(sketch: SpaceSaving | undefined, hi: number, lo: number): number {
  const place = sketch?.find(hi, lo) ?? -1
  return place === -1 ? 0 : (sketch?.lastMsAt(place) ?? 0)
}
