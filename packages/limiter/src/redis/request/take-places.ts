/** Which takes of a call lie in which slot, and in which order the slots are tried. */
import { algorithmOf, isBlock, isChargedOnRefusal, type Take } from '@sluice/core'
import type { Groups } from '../../store.js'
import { commonPartition, type ShardOf } from './partition-op.js'

/** Some takes of a call: for each group their indices, in order. */
export type TakePlaces = readonly (readonly number[])[]

/** Whether one script may decide all of them. */
export function isOneScript(
  groups: Groups<Take>,
  isSingle: (partition: number) => boolean,
  shardOf: ShardOf,
): boolean {
  const partition = commonPartition(groups, shardOf)
  if (partition === undefined) return false
  return !isSingle(partition) || groups.flat().length <= 1
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

/**
 * Whether a take waits until the rest of its group has passed: it gives back, and another slot may
 * refuse the group. What was given back may be gone when it is taken again.
 */
export function isHeldBack(takes: readonly Take[], i: number): boolean {
  return (takes[i]?.amount ?? 0) < 0 && takes.some(({ amount }) => amount >= 0)
}

/**
 * The enforced takes, slot by slot, in the order in which every call waits for them; without those
 * that wait until all others have passed.
 */
export function placesBySlot(groups: Groups<Take>, shardOf: ShardOf): readonly TakePlaces[] {
  const slots = new Map<number, number[]>()
  const [takes = []] = groups
  for (const [i, { key }] of takes.entries()) {
    if (isHeldBack(takes, i)) continue
    const shard = shardOf(key.partition)
    const indices = slots.get(shard)
    if (indices === undefined) slots.set(shard, [i])
    else indices.push(i)
  }
  const inOrder = [...slots].toSorted(([a], [b]) => a - b)
  return inOrder.map(([, indices]) => groups.map((_, g) => (g === 0 ? indices : [])))
}

/**
 * The takes of a call over several slots that are sent at once. The others wait until these have
 * passed: a shadow group that charges for its refusal, or gives back, would do so for calls that
 * never reach it, and the slot that a leaky bucket gave to a refused call is free again only if no
 * later one was taken meanwhile.
 */
export function firstPlaces(groups: Groups<Take>, isSpread: boolean): TakePlaces {
  return groups.map((takes, g) => {
    const indices = [...takes.keys()]
    if (g > 0) return takes.some(isForAdmitted) ? [] : indices
    if (!isSpread) return indices
    const early = indices.filter((i) => !isHeldBack(takes, i))
    const first = early.filter((i) => !isQueue(takes[i]) && !isBlockOfQueue(takes, i))
    return first.length > 0 ? first : early
  })
}

/** A block stays with its limit: the store charges it when the take before it is refused. */
function isBlockOfQueue(takes: readonly Take[], i: number): boolean {
  const take = takes[i]
  return take !== undefined && isBlock(take.limit) && isQueue(takes[i - 1])
}

/** Whether a take of a shadow group is sent for admitted calls only. */
function isForAdmitted(take: Take): boolean {
  const { limit, amount } = take
  return amount < 0 || isChargedOnRefusal(take) || isQueue(take) || isBlock(limit)
}

/** Whether a take is of a leaky bucket. One that charges for refusals is always sent at once. */
function isQueue(take: Take | undefined): boolean {
  if (take === undefined || isChargedOnRefusal(take)) return false
  return algorithmOf(take.limit).family === 'queue'
}
