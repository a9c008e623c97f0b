/**
 * An operation of the store, sent to Redis. One script decides it as a whole: it is a whole call,
 * or on a Cluster the takes of a call that lie in one partition.
 */
import type { CounterKey, Take } from '@sluice/core'
import type { Answer, Groups, Silence } from '../../store.js'
import type { StoreOp } from '../protocol/batch-request.js'

/** The answer to an operation; undefined for a give, charge or reset that was done. */
export type OpAnswer = Groups<Answer> | Silence | undefined

export interface OpOwner {
  readonly deadlineAtMs: number
  /** Whether the caller has been answered already. */
  readonly isAnswered: boolean
  settle(op: PartitionOp, answer: OpAnswer): void
  /** Splits an operation counter by counter, because its slot is migrating. */
  opsPerCounter(op: PartitionOp): readonly PartitionOp[]
}

export interface OpHolder {
  /** An operation that had not been sent needs no answer any more. */
  onDropped(op: PartitionOp): void
  /** The deadline of an operation passed without an answer. */
  onMissed(): void
}

/** Not routed yet, waiting for a batch, sent to Redis, or answered. */
type Stage = 'new' | 'queued' | 'sent' | 'settled'

export class PartitionOp {
  readonly owner: OpOwner
  readonly storeOp: StoreOp
  readonly partition: number
  /** What it costs Redis, which limits the size of a batch: see op-cost.ts. */
  readonly weight: number
  /** For each group, the indices of these takes in the call; undefined for all of them. */
  readonly places: readonly (readonly number[])[] | undefined
  stage: Stage = 'new'
  /** How many times it was sent again after a reply that it had not run. */
  resends = 0
  /** The queue or batch that holds it. */
  holder: OpHolder | undefined

  constructor(
    owner: OpOwner,
    storeOp: StoreOp,
    partition: number,
    weight: number,
    places?: readonly (readonly number[])[],
  ) {
    this.owner = owner
    this.storeOp = storeOp
    this.partition = partition
    this.weight = weight
    this.places = places
  }

  /**
   * Called when the deadline has passed. An operation that was never sent can no longer run; one
   * that was sent may have run.
   */
  expire(): void {
    if (this.stage === 'settled') return
    this.holder?.onMissed()
    if (this.stage !== 'sent') this.settle('not-run')
  }

  settle(answer: OpAnswer): void {
    if (this.stage === 'settled') return
    const wasQueued = this.stage === 'queued'
    this.stage = 'settled'
    if (wasQueued) this.holder?.onDropped(this)
    this.holder = undefined
    this.owner.settle(this, answer)
  }
}

export function countTakes(groups: Groups<Take>): number {
  let takes = 0
  for (let i = 0; i < groups.length; i++) takes += groups[i]?.length ?? 0
  return takes
}

/** The number of takes of an operation; 1 for other verbs. */
export function countTakesOf(storeOp: StoreOp): number {
  return storeOp.verb === 'take' || storeOp.verb === 'peek' ? countTakes(storeOp.groups) : 1
}

/** Partitions of one shard may be used by one script. */
export type ShardOf = (partition: number) => number

/** Where a script may use one partition only. */
export const eachAlone: ShardOf = (partition) => partition

/** The partition of the first take, or undefined if they lie in several shards. */
export function commonPartition(
  groups: Groups<Take>,
  shardOf: ShardOf = eachAlone,
): number | undefined {
  let common: number | undefined
  for (const takes of groups) {
    for (const { key } of takes) {
      common ??= key.partition
      if (key.partition === common) continue
      if (shardOf(key.partition) !== shardOf(common)) return undefined
    }
  }
  return common ?? 0
}

/** The partition of an operation's counters, or undefined if they lie in several. */
export function partitionOf(storeOp: StoreOp): number | undefined {
  switch (storeOp.verb) {
    case 'take':
    case 'peek':
      return commonPartition(storeOp.groups)
    case 'give':
      return storeOp.give.key.partition
    case 'charge':
      return storeOp.charge.key.partition
    case 'reset':
      return storeOp.key.partition
  }
}

export interface Slice {
  readonly partition: number
  readonly groups: Groups<Take>
  readonly places: readonly (readonly number[])[]
}

/**
 * Splits the takes of a call by the `nameOf` their counters. Each slice keeps the call's groups.
 */
export function sliceTakes<Name>(
  groups: Groups<Take>,
  nameOf: (key: CounterKey) => Name,
): readonly Slice[] {
  const slices = new Map<Name, { partition: number; groups: Take[][]; places: number[][] }>()
  groups.forEach((takes, g) => {
    takes.forEach((take, i) => {
      const name = nameOf(take.key)
      let found = slices.get(name)
      if (found === undefined) {
        found = {
          partition: take.key.partition,
          groups: groups.map(() => []),
          places: groups.map(() => []),
        }
        slices.set(name, found)
      }
      found.groups[g]?.push(take)
      found.places[g]?.push(i)
    })
  })
  return [...slices.values()]
}
