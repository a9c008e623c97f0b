/** Which takes of a call lie in which slot, and in which order the slots are tried. */
import { algorithmOf, isBlock, type Take } from '@sluice/core'
import type { Groups } from '../../store.js'
import { commonPartition } from './partition-op.js'

/** Some takes of a call: for each group their indices, in order. */
export type TakePlaces = readonly (readonly number[])[]

/** Whether one script may decide all of them. */
export function isOneScript(
  groups: Groups<Take>,
  isSingle: (partition: number) => boolean,
): boolean {
  const partition = commonPartition(groups)
  if (partition === undefined) return false
  return !isSingle(partition) || groups.flat().length <= 1
}

export function isCharging({ limit }: Take): boolean {
  return limit.onRefusal === 'charge'
}

/** The takes at some places of a group. */
export function pick(takes: readonly Take[], indices: readonly number[] = []): readonly Take[] {
  if (indices.length === takes.length) return takes
  return indices.flatMap((i) => takes[i] ?? [])
}

/** The places among these whose takes hold units, and so are marked: all but those of blocks. */
export function holdingPlaces(
  takes: readonly Take[] = [],
  indices: readonly number[] = [],
): readonly number[] {
  return indices.filter((i) => {
    const take = takes[i]
    return take !== undefined && !isBlock(take.limit)
  })
}

/** The enforced takes, slot by slot, in the order in which every call waits for them. */
export function placesBySlot(groups: Groups<Take>): readonly TakePlaces[] {
  const slots = new Map<number, number[]>()
  for (const [i, { key }] of (groups[0] ?? []).entries()) {
    const indices = slots.get(key.partition)
    if (indices === undefined) slots.set(key.partition, [i])
    else indices.push(i)
  }
  const inOrder = [...slots].toSorted(([a], [b]) => a - b)
  return inOrder.map(([, indices]) => groups.map((_, g) => (g === 0 ? indices : [])))
}

/**
 * The takes of a call over several slots that are sent at once. The others wait until these have
 * passed: a shadow group that charges for its refusal would be charged by calls that never reach
 * it, and the slot that a leaky bucket gave to a refused call is free again only if no later one
 * was taken meanwhile.
 */
export function firstPlaces(groups: Groups<Take>, isSpread: boolean): TakePlaces {
  return groups.map((takes, g) => {
    const indices = [...takes.keys()]
    if (g > 0)
      return takes.some((take) => isCharging(take) || isQueue(take) || isBlock(take.limit))
        ? []
        : indices
    const first = indices.filter((i) => !isQueue(takes[i]) && !isBlockOfQueue(takes, i))
    return isSpread && first.length > 0 ? first : indices
  })
}

/** A block stays with its limit: the store charges it when the take before it is refused. */
function isBlockOfQueue(takes: readonly Take[], i: number): boolean {
  const take = takes[i]
  return take !== undefined && isBlock(take.limit) && isQueue(takes[i - 1])
}

/** Whether a take is of a leaky bucket. One that charges for refusals is always sent at once. */
function isQueue(take: Take | undefined): boolean {
  return take !== undefined && algorithmOf(take.limit).family === 'queue' && !isCharging(take)
}
