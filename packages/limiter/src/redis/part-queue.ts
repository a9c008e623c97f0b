/**
 * Parts that wait to be sent to one Redis node. Light ones leave together in batches, in the order
 * in which they came. A heavy one, which costs more than a whole batch, leaves alone, and those
 * behind it need not wait for it. Parts whose calls were answered meanwhile are forgotten, so that
 * a node that answers nothing does not make the queue grow.
 */
import type { Part } from './part.js'

/** The cost of the light parts that may wait; more than that is answered by posture at once. */
const LIGHT_COST_MAX = 65_536
/** The heavy parts that may wait. */
const HEAVY_MAX = 1024
/** A queue is cleaned when more than half of it is settled, but not for a few. */
const SETTLED_MIN = 64

export class PartQueue {
  readonly #batchCostMax: number
  #light: Part[] = []
  #heavy: Part[] = []
  #lightCost = 0
  #heavyCost = 0
  /** Parts in the lists that wait for nothing any more. */
  #settled = 0

  constructor(batchCostMax: number) {
    this.#batchCostMax = batchCostMax
  }

  /** The cost of all that waits. */
  get cost(): number {
    return this.#lightCost + this.#heavyCost
  }

  /** The cost of what can leave in batches. */
  get lightCost(): number {
    return this.#lightCost
  }

  get hasHeavy(): boolean {
    return this.#heavyCost > 0
  }

  /** How many parts are held, settled ones included; for tests of its bound. */
  get size(): number {
    return this.#light.length + this.#heavy.length
  }

  hasRoomFor(part: Part): boolean {
    if (this.isHeavy(part)) return this.#heavy.length < HEAVY_MAX
    return this.#lightCost + part.weight <= LIGHT_COST_MAX
  }

  push(part: Part): void {
    if (this.isHeavy(part)) {
      this.#heavy.push(part)
      this.#heavyCost += part.weight
    } else {
      this.#light.push(part)
      this.#lightCost += part.weight
    }
  }

  /** A part of the queue was settled while it waited. */
  settled(part: Part): void {
    if (this.isHeavy(part)) this.#heavyCost -= part.weight
    else this.#lightCost -= part.weight
    this.#settled += 1
    if (this.#settled < SETTLED_MIN || 2 * this.#settled < this.size) return
    this.#light = this.#light.filter(isWaiting)
    this.#heavy = this.#heavy.filter(isWaiting)
    this.#settled = 0
  }

  /** Takes out the light parts of the next batch. */
  nextBatch(): readonly Part[] {
    const parts: Part[] = []
    let cost = 0
    let seen = 0
    for (const part of this.#light) {
      if (isWaiting(part)) {
        if (cost + part.weight > this.#batchCostMax) break
        cost += part.weight
        parts.push(part)
      } else this.#settled -= 1
      seen += 1
    }
    this.#light.splice(0, seen)
    this.#lightCost -= cost
    return parts
  }

  /** Takes out the first heavy part. */
  nextHeavy(): Part | undefined {
    for (let part = this.#heavy.shift(); part !== undefined; part = this.#heavy.shift()) {
      if (isWaiting(part)) {
        this.#heavyCost -= part.weight
        return part
      }
      this.#settled -= 1
    }
    return undefined
  }

  /** Empties the queue, and returns what waited. */
  clear(): readonly Part[] {
    const waiting = [...this.#light, ...this.#heavy].filter(isWaiting)
    this.#light = []
    this.#heavy = []
    this.#lightCost = 0
    this.#heavyCost = 0
    this.#settled = 0
    return waiting
  }

  private isHeavy({ weight }: Part): boolean {
    return weight > this.#batchCostMax
  }
}

function isWaiting({ stage }: Part): boolean {
  return stage === 'queued'
}
