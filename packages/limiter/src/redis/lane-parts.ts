/** What a lane is given by the store. */
import type { RedisCommand } from './driver.js'
import type { FlightPlan } from './flight.js'
import type { Lane } from './lane.js'
import type { StoreObserver } from './observer.js'
import type { Part } from './part.js'
import type { BatchCodec } from './wire/request.js'

export interface LaneParts {
  readonly nowMs: () => number
  readonly random: () => number
  readonly codec: BatchCodec
  readonly timeCommand: RedisCommand
  /** Sent on every new connection, and answered to nobody: see wire/preload.ts. */
  readonly preload: readonly RedisCommand[]
  readonly deadlineMs: number
  /** The time the script decides with; 0: the store's own. */
  readonly scriptTime: () => number
  readonly observer: StoreObserver
  /** Which parts one script decides: all of them, or on a Cluster those of one partition. */
  plan(parts: readonly Part[]): readonly FlightPlan[]
  /** Finds the lane of a part and adds it there. */
  route(part: Part): void
  /** The slot of these parts is at, or on its way to, the node of that address. */
  redirect(parts: readonly Part[], address: string, kind: 'moved' | 'ask'): void
  /** The slot of these parts is on its way elsewhere: they are asked counter by counter. */
  splitUp(parts: readonly Part[]): void
  /** The server refuses a script with the counters of several partitions; some may be settled. */
  crossSlot(parts: readonly Part[], address: string, message: string): void
  /** A script of that partition, of more than one counter, was answered. */
  passed(partition: number): void
  /** The topology is not what it was. */
  refresh(): void
  /** The node answers, for the first time or again. */
  answering(lane: Lane): void
  /** Whether this process is too busy to blame a node for late answers. */
  isBusy(): boolean
  /** A reply was read. */
  replied(): void
}
