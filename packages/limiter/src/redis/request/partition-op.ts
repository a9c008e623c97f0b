/**
 * What is on its way to the store. A part is what one script decides: a whole call, or on a Cluster
 * what of it lies in one partition.
 */
import type { CounterKey, Take } from '@sluice/core'
import type { Answer, Groups, Silence } from '../../store.js'
import type { StoreOp } from '../protocol/batch-request.js'

/** What became of a part; undefined where the verb has no answer but that it was done. */
export type OpAnswer = Groups<Answer> | Silence | undefined

export interface OpOwner {
  readonly deadlineAtMs: number
  /** Whether the caller has its answer already. */
  readonly isAnswered: boolean
  settle(op: PartitionOp, answer: OpAnswer): void
  /** The same counter by counter, for a slot that is on its way to another node. */
  opsPerCounter(op: PartitionOp): readonly PartitionOp[]
}

export interface OpHolder {
  /** The part needs no answer any more; it had not left. */
  onDropped(op: PartitionOp): void
  /** Its deadline passed without an answer. */
  onMissed(): void
}

/** Where a part is: nowhere yet, waiting for a batch, on the wire, or done with. */
type Stage = 'new' | 'queued' | 'sent' | 'settled'

export class PartitionOp {
  readonly owner: OpOwner
  readonly storeOp: StoreOp
  readonly partition: number
  /** What it costs Redis, for the size of a batch: see op-cost.ts. */
  readonly weight: number
  /** For each group, which of the call's takes these are; undefined: all of them. */
  readonly places: readonly (readonly number[])[] | undefined
  stage: Stage = 'new'
  /** How often it was sent again after an answer that says it was not done. */
  resends = 0
  /** What holds it while it waits or is on the wire. */
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

  /** Its deadline has passed. One that never left cannot run any more; one that did may have. */
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

/** How many takes an operation has; of other verbs one. */
export function countTakesOf(storeOp: StoreOp): number {
  return storeOp.verb === 'take' || storeOp.verb === 'peek' ? countTakes(storeOp.groups) : 1
}

/** The partition of every take, or undefined where they lie in several. */
export function commonPartition(groups: Groups<Take>): number | undefined {
  let common: number | undefined
  for (const takes of groups) {
    for (const { key } of takes) {
      common ??= key.partition
      if (key.partition !== common) return undefined
    }
  }
  return common ?? 0
}

/** The partition of an operation's counters; undefined where they lie in several. */
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

/** The takes of a call cut by `nameOf` their counters; each slice keeps the call's groups. */
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
