/**
 * Which lane a part takes. Without a Cluster there is one; on a Cluster each partition has its
 * slot, and each slot its node, which may change at any time.
 */
import type { RedisChannel, RedisDriver } from './driver.js'
import type { FlightPlan } from './flight.js'
import { byHaste } from './haste.js'
import { Lane } from './lane.js'
import type { LaneParts } from './lane-parts.js'
import { NO_ADDRESS } from './observer.js'
import { type Part, partitionOf } from './part.js'
import { PARTITION_SLOTS, PARTITION_TAGS } from './partitions.js'

/** How long a partition is asked counter by counter before a whole script is tried again. */
const SINGLE_MS = 250
/** The topology is not asked for more often than this. */
const REFRESH_EVERY_MS = 100

export type RouterParts = Omit<
  LaneParts,
  'plan' | 'route' | 'redirect' | 'splitUp' | 'crossSlot' | 'passed' | 'refresh'
>

export class Router {
  readonly #driver: RedisDriver
  readonly #lanes = new Map<RedisChannel, Lane>()
  /** The same, made once: whoever needs the store's time asks for them all the time. */
  #list: readonly Lane[] = []
  readonly #parts: LaneParts
  /** For each partition, until when it is asked counter by counter. */
  readonly #singleUntilMs = new Float64Array(PARTITION_TAGS.length)
  #refreshedMs = -Infinity
  /** Whether one address hides several servers, so that a script may have one partition only. */
  #isProxied = false
  #isClosed = false

  constructor(driver: RedisDriver, parts: RouterParts) {
    this.#driver = driver
    this.#parts = {
      ...parts,
      plan: (waiting) => this.plan(waiting),
      route: (part) => this.route(part),
      redirect: (redirected, address, kind) => this.redirect(redirected, address, kind),
      splitUp: (split) => this.splitUp(split),
      crossSlot: (mixed, address, message) => this.crossSlot(mixed, address, message),
      passed: (partition) => this.passed(partition),
      refresh: () => this.refresh(),
    }
    driver.onReady((channel) => {
      // The driver may outlive this router.
      if (this.#isClosed) return
      const known = this.#lanes.get(channel)
      if (known === undefined) this.laneOf(channel)
      else known.greet()
    })
    for (const channel of driver.channels()) this.laneOf(channel)
  }

  /** Whether a script may have the counters of one partition only: on a Cluster, behind a proxy. */
  get isPartitioned(): boolean {
    return this.#isProxied || this.#driver.topology === 'cluster'
  }

  lanes(): readonly Lane[] {
    return this.#list
  }

  /** Whether a slot is on its way elsewhere, so that a script may have one counter only. */
  isSingle(partition: number): boolean {
    const until = this.#singleUntilMs[partition] ?? 0
    return until > 0 && until > this.#parts.nowMs()
  }

  route(part: Part): void {
    if (part.stage === 'settled') return
    const channel = this.#driver.channelOf(PARTITION_SLOTS[part.partition] ?? 0)
    if (channel === undefined) {
      this.refresh()
      this.#parts.observer.error('connection', NO_ADDRESS)
      part.settle('not-run')
    } else this.laneOf(channel).add(part)
  }

  close(): void {
    this.#isClosed = true
    for (const lane of this.#lanes.values()) lane.close()
  }

  private laneOf(channel: RedisChannel): Lane {
    const known = this.#lanes.get(channel)
    if (known !== undefined) return known
    this.forgetGone()
    const lane = new Lane(channel, this.#parts)
    this.#lanes.set(channel, lane)
    this.#list = [...this.#lanes.values()]
    return lane
  }

  /**
   * Nodes come and go; a lane whose node is not part of the topology any more goes too. Asked at
   * every new node, and by whoever tells of nodes: the last to go is followed by no new one.
   */
  forgetGone(): void {
    const present = new Set(this.#driver.channels())
    for (const [channel, lane] of this.#lanes) {
      if (present.has(channel) || channel.isReady || lane.inFlight > 0) continue
      lane.close()
      this.#lanes.delete(channel)
      this.#list = [...this.#lanes.values()]
    }
  }

  /** One script for all, or one for each partition where its keys must share a slot. */
  private plan(parts: readonly Part[]): readonly FlightPlan[] {
    if (!this.isPartitioned) return parts.length === 0 ? [] : this.byHaste(parts)
    const byPartition = new Map<number, Part[]>()
    const plans: FlightPlan[] = []
    for (const part of parts) {
      if (this.isSingle(part.partition)) {
        for (const single of part.owner.split(part)) plans.push({ parts: [single], asking: false })
        continue
      }
      const together = byPartition.get(part.partition)
      if (together === undefined) byPartition.set(part.partition, [part])
      else together.push(part)
    }
    for (const together of byPartition.values()) plans.push(...this.byHaste(together))
    return plans
  }

  private byHaste(parts: readonly Part[]): readonly FlightPlan[] {
    return byHaste(parts, this.#parts.nowMs()).map((group) => ({ parts: group, asking: false }))
  }

  private redirect(parts: readonly Part[], address: string, kind: 'moved' | 'ask'): void {
    const channel = this.#driver.channelAt(address)
    if (channel === undefined || !channel.isReady) {
      this.refresh()
      this.notReached(parts, address)
      return
    }
    const lane = this.laneOf(channel)
    if (kind === 'moved') {
      for (const part of parts) lane.add(part)
      return
    }
    this.goSingle(parts)
    // Without its clock nothing would keep the node from deciding after the deadline.
    if (!lane.isAnswering) {
      this.notReached(parts, address)
      return
    }
    const singles = parts.flatMap((part) => part.owner.split(part))
    if (singles.length > 0) lane.sendAsking(singles)
  }

  private notReached(parts: readonly Part[], address: string): void {
    for (const part of parts) {
      this.#parts.observer.error('connection', address)
      part.settle('not-run')
    }
  }

  private splitUp(parts: readonly Part[]): void {
    this.goSingle(parts)
    for (const part of parts) for (const single of part.owner.split(part)) this.route(single)
  }

  /**
   * From now on every partition has a script of its own, beginning with what was refused. What the
   * script had is told by all its parts, also by those that are settled by now.
   */
  private crossSlot(parts: readonly Part[], address: string, message: string): void {
    const { observer } = this.#parts
    const open = parts.filter(({ stage }) => stage !== 'settled')
    const isMixed = new Set(parts.map(({ op }) => partitionOf(op))).size > 1
    if (!isMixed && parts.every(({ op }) => partitionOf(op) !== undefined)) {
      observer.problem(`Redis ${address} refuses scripts: ${message}`)
      for (const part of open) part.settle('not-run')
      return
    }
    if (!this.isPartitioned) {
      this.#isProxied = true
      const found = `Redis ${address} shards its keys behind one address (CROSSSLOT)`
      observer.problem(`${found}: sending one script for each partition from now on`)
    }
    for (const part of open) for (const single of part.owner.split(part)) this.route(single)
  }

  private goSingle(parts: readonly Part[]): void {
    const until = this.#parts.nowMs() + SINGLE_MS
    for (const { partition } of parts) this.#singleUntilMs[partition] = until
  }

  private passed(partition: number): void {
    this.#singleUntilMs[partition] = 0
  }

  private refresh(): void {
    const nowMs = this.#parts.nowMs()
    if (nowMs - this.#refreshedMs < REFRESH_EVERY_MS) return
    this.#refreshedMs = nowMs
    this.#driver.refresh()
  }
}
