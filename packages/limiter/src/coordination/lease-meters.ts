/**
 * Meters by their counters, in two generations: when the younger is full or old, the elder is
 * forgotten, and what was asked for meanwhile has moved to the younger. So a flood of new callers
 * drops those that are silent, never those that call.
 */
import type { CounterKey } from '@sluice/core'
import type { Meter } from './lease-meter.js'

/** The most counters remembered are two generations. */
const GENERATION_MAX = 50_000
/** Far above the longest lease: what was not asked for so long has no rate. */
const GENERATION_MS = 10_000

/** The lower half of a key finds it: no text is made for a lookup. Few keys share one. */
type Generation = Map<number, Meter>

export class Meters {
  readonly #max: number
  #young: Generation = new Map()
  #old: Generation = new Map()
  #youngSize = 0
  #oldSize = 0
  #turnedMs = 0

  constructor(generationMax = GENERATION_MAX) {
    this.#max = generationMax
  }

  get size(): number {
    return this.#youngSize + this.#oldSize
  }

  find(key: CounterKey): Meter | undefined {
    let meter = this.#young.get(key.lo)
    while (meter !== undefined && meter.key.hi !== key.hi) meter = meter.next
    return meter ?? this.findOld(key)
  }

  /** One that is not there yet. */
  add(meter: Meter, nowMs: number): void {
    if (nowMs - this.#turnedMs >= GENERATION_MS) {
      this.#turnedMs = nowMs
      this.turn()
    }
    this.insert(meter)
  }

  private insert(meter: Meter): void {
    if (this.#youngSize >= this.#max) this.turn()
    this.link(meter)
  }

  private link(meter: Meter): void {
    meter.next = this.#young.get(meter.key.lo)
    this.#young.set(meter.key.lo, meter)
    this.#youngSize += 1
  }

  /** Moves what it finds to the younger generation. */
  private findOld({ hi, lo }: CounterKey): Meter | undefined {
    let before: Meter | undefined
    let meter = this.#old.get(lo)
    while (meter !== undefined && meter.key.hi !== hi) {
      before = meter
      meter = meter.next
    }
    if (meter === undefined) return undefined
    if (before !== undefined) before.next = meter.next
    else if (meter.next !== undefined) this.#old.set(lo, meter.next)
    else this.#old.delete(lo)
    this.#oldSize -= 1
    this.insert(meter)
    return meter
  }

  /** Of those that are forgotten, the ones that hold something stay; they are few. */
  private turn(): void {
    const forgotten = this.#old
    this.#old = this.#young
    this.#oldSize = this.#youngSize
    this.#young = new Map()
    this.#youngSize = 0
    for (const first of forgotten.values()) {
      let meter: Meter | undefined = first
      while (meter !== undefined) {
        const { next }: Meter = meter
        if (meter.isBusy) this.link(meter)
        meter = next
      }
    }
  }
}
