/**
 * Operations that wait to be sent to one Redis node. Light operations are sent together in batches,
 * in order of arrival. A heavy one, which costs more than a whole batch, is sent alone, and the
 * light ones behind it do not wait for it. Operations whose calls were answered meanwhile are
 * removed, so the queue does not grow while the node is silent.
 */
import type { PartitionOp } from '../request/partition-op.js'

/** The total cost of light operations that may wait; further ones are answered by posture. */
const LIGHT_COST_MAX = 65_536
/** The number of heavy operations that may wait. */
const HEAVY_MAX = 1024
/** The queue is compacted when more than half of it, and at least this many, are settled. */
const SETTLED_MIN = 64

export class OpQueue {
  readonly #batchCostMax: number
  #light: PartitionOp[] = []
  #heavy: PartitionOp[] = []
  #lightCost = 0
  #heavyCost = 0
  /** Operations still in the lists although they are settled. */
  #settled = 0

  constructor(batchCostMax: number) {
    this.#batchCostMax = batchCostMax
  }

  /** The cost of all waiting operations. */
  get cost(): number {
    return this.#lightCost + this.#heavyCost
  }

  /** The cost of the operations that can be sent in batches. */
  get lightCost(): number {
    return this.#lightCost
  }

  get hasHeavy(): boolean {
    return this.#heavyCost > 0
  }

  /** The number of operations in the lists, settled ones included; for tests of the bound. */
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

  /** Called when an operation was settled while it waited in the queue. */
  onSettled(op: PartitionOp): void {
    if (this.isHeavy(op)) this.#heavyCost -= op.weight
    else this.#lightCost -= op.weight
    this.#settled += 1
    if (this.#settled < SETTLED_MIN || 2 * this.#settled < this.size) return
    this.#light = this.#light.filter(isWaiting)
    this.#heavy = this.#heavy.filter(isWaiting)
    this.#settled = 0
  }

  /** Removes and returns the light operations of the next batch. */
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

  /** Removes and returns the first heavy operation. */
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

  /** Empties the queue and returns the operations that waited. */
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
