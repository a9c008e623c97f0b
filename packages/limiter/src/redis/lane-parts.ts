/** What a lane is given by the store. */
import type { RedisCommand } from './connection/driver.js'
import type { ScriptPlan } from './pipeline/in-flight-batch.js'
import type { NodePipeline } from './pipeline/node-pipeline.js'
import type { StoreObserver } from './pipeline/redis-observer.js'
import type { PartitionOp } from './request/partition-op.js'
import type { BatchCodec } from './protocol/batch-request.js'

export interface NodePipelineDeps {
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
  plan(ops: readonly PartitionOp[]): readonly ScriptPlan[]
  /** Finds the lane of a part and adds it there. */
  route(op: PartitionOp): void
  /** The slot of these parts is at, or on its way to, the node of that address. */
  redirect(ops: readonly PartitionOp[], address: string, kind: 'moved' | 'ask'): void
  /** The slot of these parts is on its way elsewhere: they are asked counter by counter. */
  resendPerCounter(ops: readonly PartitionOp[]): void
  /** The server refuses a script with the counters of several partitions; some may be settled. */
  onCrossSlot(ops: readonly PartitionOp[], address: string, message: string): void
  /** A script of that partition, of more than one counter, was answered. */
  onScriptPassed(partition: number): void
  /** The topology is not what it was. */
  refreshTopology(): void
  /** The node answers, for the first time or again. */
  onAnswering(pipeline: NodePipeline): void
  /** Whether this process is too busy to blame a node for late answers. */
  isBusy(): boolean
  /** A reply was read. */
  onReply(): void
}
