/**
 * Parts that wait to be sent to one Redis node. Light ones leave together in batches, in the order
 * in which they came. A heavy one, which costs more than a whole batch, leaves alone, and those
 * behind it need not wait for it. Parts whose calls were answered meanwhile are forgotten, so that
 * a node that answers nothing does not make the queue grow.
 */
import type { PartitionOp } from '../request/partition-op.js'

/** The cost of the light parts that may wait; more than that is answered by posture at once. */
const LIGHT_COST_MAX = 65_536
/** The heavy parts that may wait. */
const HEAVY_MAX = 1024
/** A queue is cleaned when more than half of it is settled, but not for a few. */
const SETTLED_MIN = 64

export class OpQueue {
  readonly #batchCostMax: number
  #light: PartitionOp[] = []
  #heavy: PartitionOp[] = []
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

  hasRoomFor(op: PartitionOp): boolean {
    if (this.isHeavy(op)) return this.#heavy.length < HEAVY_MAX
    return this.#lightCost + op.weight <= LIGHT_COST_MAX
  }

  push(op: PartitionOp): void {
    if (this.isHeavy(op)) {
      this.#heavy.push(op)
      this.#heavyCost += op.weight
    } else {
      this.#light.push(op)
      this.#lightCost += op.weight
    }
  }

  /** A part of the queue was settled while it waited. */
  onSettled(op: PartitionOp): void {
    if (this.isHeavy(op)) this.#heavyCost -= op.weight
    else this.#lightCost -= op.weight
    this.#settled += 1
    if (this.#settled < SETTLED_MIN || 2 * this.#settled < this.size) return
    this.#light = this.#light.filter(isWaiting)
    this.#heavy = this.#heavy.filter(isWaiting)
    this.#settled = 0
  }

  /** Takes out the light parts of the next batch. */
  nextBatch(): readonly PartitionOp[] {
    const ops: PartitionOp[] = []
    let cost = 0
    let count = 0
    for (const op of this.#light) {
      if (isWaiting(op)) {
        if (cost + op.weight > this.#batchCostMax) break
        cost += op.weight
        ops.push(op)
      } else this.#settled -= 1
      count += 1
    }
    this.#light.splice(0, count)
    this.#lightCost -= cost
    return ops
  }

  /** Takes out the first heavy part. */
  nextHeavy(): PartitionOp | undefined {
    for (let op = this.#heavy.shift(); op !== undefined; op = this.#heavy.shift()) {
      if (isWaiting(op)) {
        this.#heavyCost -= op.weight
        return op
      }
      this.#settled -= 1
    }
    return undefined
  }

  /** Empties the queue, and returns what waited. */
  clear(): readonly PartitionOp[] {
    const waiting = [...this.#light, ...this.#heavy].filter(isWaiting)
    this.#light = []
    this.#heavy = []
    this.#lightCost = 0
    this.#heavyCost = 0
    this.#settled = 0
    return waiting
  }

  private isHeavy({ weight }: PartitionOp): boolean {
    return weight > this.#batchCostMax
  }
}

function isWaiting({ stage }: PartitionOp): boolean {
  return stage === 'queued'
}
