/**
 * Chooses the pipeline of each operation. Without a Cluster there is one pipeline. On a Cluster
 * each partition lies in one slot, and each slot is served by one node, which may change at any
 * time.
 */
import type { RedisChannel, RedisDriver } from '../connection/driver.js'
import type { ScriptPlan } from './in-flight-batch.js'
import { groupByDeadline } from './deadline-groups.js'
import { NodePipeline, type NodePipelineDeps } from './node-pipeline.js'
import { NO_ADDRESS } from './redis-observer.js'
import { type PartitionOp, partitionOf } from '../request/partition-op.js'
import { PARTITION_SLOTS, PARTITION_TAGS } from '../request/partitions.js'

/** How long a partition is sent counter by counter before a whole script is tried again. */
const SINGLE_MS = 250
/** The least time between two requests for a new topology. */
const REFRESH_EVERY_MS = 100

export type RouterDeps = Omit<
  NodePipelineDeps,
  | 'plan'
  | 'route'
  | 'redirect'
  | 'resendPerCounter'
  | 'onCrossSlot'
  | 'onScriptPassed'
  | 'refreshTopology'
>

export class Router {
  readonly #driver: RedisDriver
  readonly #pipelines = new Map<RedisChannel, NodePipeline>()
  /**
   * The pipelines as a list, built once per change because reads of the store's time are frequent.
   */
  #list: readonly NodePipeline[] = []
  readonly #deps: NodePipelineDeps
  /** For each partition, until when it is sent counter by counter. */
  readonly #singleUntilMs = new Float64Array(PARTITION_TAGS.length)
  #refreshedMs = -Infinity
  /** Whether one address hides several servers, so that a script may use only one partition. */
  #isProxied = false
  #isClosed = false

  constructor(driver: RedisDriver, deps: RouterDeps) {
    this.#driver = driver
    this.#deps = {
      ...deps,
      plan: (waiting) => this.plan(waiting),
      route: (op) => this.route(op),
      redirect: (redirected, address, kind) => this.redirect(redirected, address, kind),
      resendPerCounter: (split) => this.resendPerCounter(split),
      onCrossSlot: (mixed, address, message) => this.onCrossSlot(mixed, address, message),
      onScriptPassed: (partition) => this.onScriptPassed(partition),
      refreshTopology: () => this.refreshTopology(),
    }
    driver.onReady((channel) => {
      // The driver may outlive this router.
      if (this.#isClosed) return
      const known = this.#pipelines.get(channel)
      if (known === undefined) this.pipelineOf(channel)
      else known.onConnected()
    })
    for (const channel of driver.channels()) this.pipelineOf(channel)
  }

  /** Whether a script may use only one shard: on a Cluster, in a ring, or behind a proxy. */
  get isPartitioned(): boolean {
    const { topology } = this.#driver
    return this.#isProxied || topology === 'cluster' || topology === 'ring'
  }

  /** Partitions with the same number may be used by one script. */
  shardOf(partition: number): number {
    return this.#driver.shardOf?.(partition) ?? partition
  }

  pipelines(): readonly NodePipeline[] {
    return this.#list
  }

  /** Whether a slot is migrating, so that a script may use only one counter. */
  isSingle(partition: number): boolean {
    const until = this.#singleUntilMs[partition] ?? 0
    return until > 0 && until > this.#deps.nowMs()
  }

  /** Whether an operation for a server would be sent now. */
  isAnswering(channel: RedisChannel): boolean {
    return this.#pipelines.get(channel)?.isAnswering === true
  }

  route(op: PartitionOp): void {
    if (op.stage === 'settled') return
    const channel = this.#driver.channelOf(PARTITION_SLOTS[op.partition] ?? 0)
    if (channel === undefined) {
      this.refreshTopology()
      this.#deps.observer.error('connection', NO_ADDRESS)
      op.settle('not-run')
    } else this.pipelineOf(channel).add(op)
  }

  close(): void {
    this.#isClosed = true
    for (const pipeline of this.#pipelines.values()) pipeline.close()
  }

  private pipelineOf(channel: RedisChannel): NodePipeline {
    const known = this.#pipelines.get(channel)
    if (known !== undefined) return known
    this.removeGone()
    const pipeline = new NodePipeline(channel, this.#deps)
    this.#pipelines.set(channel, pipeline)
    this.#list = [...this.#pipelines.values()]
    return pipeline
  }

  /**
   * Closes pipelines whose node has left the topology. Called for every new node, and by readers of
   * node statistics, because no new node follows the last one that leaves.
   */
  removeGone(): void {
    const present = new Set(this.#driver.channels())
    for (const [channel, pipeline] of this.#pipelines) {
      if (present.has(channel) || channel.isReady || pipeline.inFlight > 0) continue
      pipeline.close()
      this.#pipelines.delete(channel)
      this.#list = [...this.#pipelines.values()]
    }
  }

  /**
   * Groups operations into scripts: all in one, or one per partition where keys must share a slot.
   */
  private plan(ops: readonly PartitionOp[]): readonly ScriptPlan[] {
    const isWhole = !this.isPartitioned || this.#driver.topology === 'ring'
    if (isWhole) return ops.length === 0 ? [] : this.groupByDeadline(ops)
    const byPartition = new Map<number, PartitionOp[]>()
    const plans: ScriptPlan[] = []
    for (const op of ops) {
      if (this.isSingle(op.partition)) {
        for (const single of op.owner.opsPerCounter(op))
          plans.push({ ops: [single], asking: false })
        continue
      }
      const together = byPartition.get(op.partition)
      if (together === undefined) byPartition.set(op.partition, [op])
      else together.push(op)
    }
    for (const together of byPartition.values()) plans.push(...this.groupByDeadline(together))
    return plans
  }

  private groupByDeadline(ops: readonly PartitionOp[]): readonly ScriptPlan[] {
    return groupByDeadline(ops, this.#deps.nowMs()).map((group) => ({
      ops: group,
      asking: false,
    }))
  }

  private redirect(ops: readonly PartitionOp[], address: string, kind: 'moved' | 'ask'): void {
    const channel = this.#driver.channelAt(address)
    if (channel === undefined || !channel.isReady) {
      this.refreshTopology()
      this.failUnreached(ops, address)
      return
    }
    const pipeline = this.pipelineOf(channel)
    if (kind === 'moved') {
      for (const op of ops) pipeline.add(op)
      return
    }
    this.useSingleScripts(ops)
    // While its clock is unknown, nothing would keep the node from deciding after the deadline.
    if (!pipeline.isAnswering) {
      this.failUnreached(ops, address)
      return
    }
    const singles = ops.flatMap((op) => op.owner.opsPerCounter(op))
    if (singles.length > 0) pipeline.sendAsking(singles)
  }

  private failUnreached(ops: readonly PartitionOp[], address: string): void {
    for (const op of ops) {
      this.#deps.observer.error('connection', address)
      op.settle('not-run')
    }
  }

  private resendPerCounter(ops: readonly PartitionOp[]): void {
    this.useSingleScripts(ops)
    for (const op of ops) for (const single of op.owner.opsPerCounter(op)) this.route(single)
  }

  /**
   * Sends one script per partition from now on, starting with the refused operations. Whether the
   * script had several partitions is read from all its operations, settled ones included.
   */
  private onCrossSlot(ops: readonly PartitionOp[], address: string, message: string): void {
    const { observer } = this.#deps
    const open = ops.filter(({ stage }) => stage !== 'settled')
    const isMixed = new Set(ops.map(({ storeOp }) => partitionOf(storeOp))).size > 1
    if (!isMixed && ops.every(({ storeOp }) => partitionOf(storeOp) !== undefined)) {
      observer.problem(`Redis ${address} refuses scripts: ${message}`)
      for (const op of open) op.settle('not-run')
      return
    }
    if (!this.isPartitioned) {
      this.#isProxied = true
      const found = `Redis ${address} shards its keys behind one address (CROSSSLOT)`
      observer.problem(`${found}: sending one script for each partition from now on`)
    }
    for (const op of open) for (const single of op.owner.opsPerCounter(op)) this.route(single)
  }

  private useSingleScripts(ops: readonly PartitionOp[]): void {
    const until = this.#deps.nowMs() + SINGLE_MS
    for (const { partition } of ops) this.#singleUntilMs[partition] = until
  }

  private onScriptPassed(partition: number): void {
    this.#singleUntilMs[partition] = 0
  }

  private refreshTopology(): void {
    const nowMs = this.#deps.nowMs()
    if (nowMs - this.#refreshedMs < REFRESH_EVERY_MS) return
    this.#refreshedMs = nowMs
    this.#driver.refresh()
  }
}
