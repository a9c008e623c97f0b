/**
 * Measures the memory of every primary, and reports evictions, and changes of its eviction policy
 * or of the permissions of this node: a replica that became the primary may be configured
 * differently. Evictions are reported here and not only by alerts, because an evicted counter
 * grants its whole budget again, also to programs that use the library alone.
 */
import { show } from '@sluice/core'
import type { RunCommand } from '../connection/run-command.js'
import { RedisReplyError } from '../connection/driver.js'
import { actionOf, codeOf } from '../pipeline/error-actions.js'
import { PeriodicTask, type Scheduler } from '../../periodic.js'
import { fetchInfo, type StoreInfo } from './store-info.js'

const POLL_EVERY_MS = 5000
/** Evictions are over after this many polls without one: a minute. */
const QUIET_POLLS = 12

export interface WatchedNode {
  readonly address: string
  readonly run: RunCommand
}

export interface StoreWatchOptions {
  /** The primaries there are now. */
  readonly primaries: () => readonly WatchedNode[]
  readonly scheduler: Scheduler
  /** Called once per change, for the worse and for the better. */
  readonly onProblem: (text: string) => void
}

interface NodeInfo extends StoreInfo {
  readonly address: string
}

/** Sums over all primaries, as last seen. */
export interface StoreStats {
  readonly usedBytes: number
  /** 0 if one of them has no bound. */
  readonly maxBytes: number
  readonly evictedKeys: number
  readonly keys: number
  /** Whether all of them write an append-only file; false before the first measurement. */
  readonly aof: boolean
  readonly nodes: readonly NodeInfo[]
  /** By address, the error message of a primary that refuses this node. */
  readonly refusals: ReadonlyMap<string, string>
}

export class StoreWatch {
  readonly #options: StoreWatchOptions
  readonly #task: PeriodicTask
  /** By address; as many as there are primaries. */
  readonly #nodes = new Map<string, NodeWatch>()

  constructor(options: StoreWatchOptions) {
    this.#options = options
    this.#task = new PeriodicTask(POLL_EVERY_MS, () => this.poll(), options.scheduler)
  }

  start(): void {
    this.#task.start()
  }

  stop(): void {
    this.#task.stop()
  }

  stats(): StoreStats {
    const nodes = [...this.#nodes].flatMap(([address, { info }]) =>
      info === undefined ? [] : [{ address, ...info }],
    )
    const sum = (figureOf: (node: NodeInfo) => number) =>
      nodes.reduce((all, node) => all + figureOf(node), 0)
    const isBounded = nodes.every((node) => node.maxBytes > 0)
    return {
      usedBytes: sum((node) => node.usedBytes),
      maxBytes: isBounded ? sum((node) => node.maxBytes) : 0,
      evictedKeys: sum((node) => node.evictedKeys),
      keys: sum((node) => node.keys),
      aof: nodes.length > 0 && nodes.every((node) => node.aof),
      nodes,
      refusals: new Map(
        [...this.#nodes].flatMap(([address, { refusal }]) =>
          refusal === '' ? [] : [[address, refusal] as const],
        ),
      ),
    }
  }

  private async poll(): Promise<void> {
    const primaries = this.#options.primaries()
    const present = new Set(primaries.map(({ address }) => address))
    for (const address of this.#nodes.keys()) if (!present.has(address)) this.#nodes.delete(address)
    await Promise.all(primaries.map((primary) => this.pollNode(primary)))
  }

  /** Never rejects. A node that does not answer keeps its last figures. */
  private async pollNode({ address, run }: WatchedNode): Promise<void> {
    let watch = this.#nodes.get(address)
    if (watch === undefined) {
      watch = new NodeWatch()
      this.#nodes.set(address, watch)
    }
    const report = (change: string | undefined) => {
      if (change !== undefined) this.#options.onProblem(`Redis at ${address}: ${change}`)
    }
    try {
      for (const change of watch.observe(await fetchInfo(run))) report(change)
      // Every connection starts with TIME: without the right to it, no call is decided.
      await run(['TIME'])
      report(watch.onAllowed())
    } catch (error) {
      report(watch.onRefused(error))
    }
  }
}

class NodeWatch {
  info: StoreInfo | undefined
  /** The error by which Redis denies this node a permission; empty if it does not. */
  refusal = ''

  /** Keys evicted since the evictions began; 0 if there are none. */
  #evicted = 0
  #quietPolls = 0

  /** Returns what has changed, in words. */
  observe(info: StoreInfo): readonly (string | undefined)[] {
    const before = this.info
    this.info = info
    return [this.policyChange(info, before), this.evictionChange(info, before)]
  }

  private policyChange({ evictionPolicy }: StoreInfo, before: StoreInfo | undefined) {
    if (evictionPolicy === undefined || evictionPolicy === before?.evictionPolicy) return undefined
    if (evictionPolicy !== 'noeviction') {
      return `maxmemory-policy is ${show(evictionPolicy)} now; accepted: noeviction`
    }
    return before?.evictionPolicy === undefined ? undefined : 'maxmemory-policy is noeviction again'
  }

  /** Ignores evictions before the first poll. A count that fell is that of a restarted server. */
  private evictionChange({ evictedKeys }: StoreInfo, before: StoreInfo | undefined) {
    const last = before?.evictedKeys ?? evictedKeys
    const rise = evictedKeys < last ? evictedKeys : evictedKeys - last
    const wasEvicting = this.#evicted > 0
    this.#evicted += rise
    this.#quietPolls = rise > 0 ? 0 : this.#quietPolls + 1
    if (rise > 0 && !wasEvicting) {
      return (
        `evicted ${rise} keys since the last poll: each may be a counter whose whole budget is ` +
        'handed out again; accepted: maxmemory-policy noeviction'
      )
    }
    if (!wasEvicting || this.#quietPolls < QUIET_POLLS) return undefined
    const evicted = this.#evicted
    this.#evicted = 0
    return `no longer evicts keys; it had evicted ${evicted}`
  }

  onRefused(error: unknown): string | undefined {
    if (!(error instanceof RedisReplyError)) return undefined
    if (actionOf(codeOf(error.message)) !== 'loud' || this.refusal === error.message) {
      return undefined
    }
    this.refusal = error.message
    return `refuses this node: ${error.message}; accepted: a user with the rights in STORE_ACL`
  }

  onAllowed(): string | undefined {
    if (this.refusal === '') return undefined
    this.refusal = ''
    return 'accepts this node again'
  }
}
