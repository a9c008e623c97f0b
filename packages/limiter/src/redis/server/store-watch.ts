/**
 * Looks at every primary now and then: what operators want to see of it, and what makes limits
 * wrong while all seems well. An evicted counter is a budget handed out again; a full Redis admits
 * nothing; a replica that became the primary may be set up otherwise.
 */
import { show } from '@sluice/core'
import type { RunCommand } from '../connection/run-command.js'
import { RedisReplyError } from '../connection/driver.js'
import { actionOf, codeOf } from '../pipeline/error-actions.js'
import { PeriodicTask, type Scheduler } from '../../periodic.js'
import { fetchInfo, type StoreInfo } from './store-info.js'

const POLL_EVERY_MS = 5000
/** Above this share of its bound memory is a problem; it is none any more below the other. */
const FULL_SHARE = 0.8
const ROOMY_SHARE = 0.75
/** Evictions are over once none was seen for so many looks: a minute. */
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
  /** Whether all of them write an append-only file; false before the first look. */
  readonly aof: boolean
  readonly nodes: readonly NodeInfo[]
  /** By address, what a primary says that refuses this node. */
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
    const report = (changes: string) => this.#options.onProblem(`Redis at ${address}: ${changes}`)
    try {
      for (const changes of watch.observe(await fetchInfo(run))) report(changes)
      // Asked after every connection, and of a user that may not ask nothing is decided.
      await run(['TIME'])
      watch.onAllowed().forEach(report)
    } catch (error) {
      watch.onRefused(error).forEach(report)
    }
  }
}

class NodeWatch {
  info: StoreInfo | undefined
  /** What Redis says to a user that may not ask what must be asked; empty: it may. */
  refusal = ''
  #isFull = false
  /** How many keys were evicted since that began; 0: none are. */
  #evicted = 0
  #quietPolls = 0

  /** What has changed, in words. */
  observe(info: StoreInfo): readonly string[] {
    const before = this.info
    this.info = info
    const changes = [this.memory(info), this.policy(info, before), this.evictions(info, before)]
    return changes.filter((each) => each !== undefined)
  }

  /** What is new, in words. */
  onRefused(error: unknown): readonly string[] {
    if (!(error instanceof RedisReplyError) || actionOf(codeOf(error.message)) !== 'loud') return []
    if (this.refusal === error.message) return []
    this.refusal = error.message
    return [`refuses this node: ${error.message}; accepted: a user with the rights in STORE_ACL`]
  }

  onAllowed(): readonly string[] {
    if (this.refusal === '') return []
    this.refusal = ''
    return ['refuses this node no more']
  }

  private memory({ usedBytes, maxBytes }: StoreInfo): string | undefined {
    const share = maxBytes === 0 ? 0 : usedBytes / maxBytes
    const isFull = share > (this.#isFull ? ROOMY_SHARE : FULL_SHARE)
    if (isFull === this.#isFull) return undefined
    this.#isFull = isFull
    const percent = Math.round(share * 100)
    if (maxBytes === 0) return `uses ${usedBytes} bytes, and maxmemory has no bound now`
    const found = `uses ${percent} % of its maxmemory (${usedBytes} of ${maxBytes} bytes)`
    return isFull
      ? `${found}; at 100 % it takes no writes, and calls are answered by posture`
      : `${found}; there is room again`
  }

  private policy({ evictionPolicy }: StoreInfo, before: StoreInfo | undefined): string | undefined {
    if (evictionPolicy === undefined || evictionPolicy === before?.evictionPolicy) return undefined
    if (evictionPolicy !== 'noeviction') {
      return `maxmemory-policy is ${show(evictionPolicy)} now; accepted: noeviction`
    }
    return before?.evictionPolicy === undefined ? undefined : 'maxmemory-policy is noeviction again'
  }

  private evictions(info: StoreInfo, before: StoreInfo | undefined): string | undefined {
    // What was evicted before the first look is nobody's news. A count that fell is one of a server
    // that was started anew.
    const last = before?.evictedKeys ?? info.evictedKeys
    const rise = info.evictedKeys < last ? info.evictedKeys : info.evictedKeys - last
    const wasEvicting = this.#evicted > 0
    this.#evicted += rise
    this.#quietPolls = rise > 0 ? 0 : this.#quietPolls + 1
    if (rise > 0 && !wasEvicting) {
      return (
        `evicted ${rise} keys since the last look: each may be a counter whose whole budget is ` +
        'handed out again; accepted: maxmemory-policy noeviction'
      )
    }
    if (!wasEvicting || this.#quietPolls < QUIET_POLLS) return undefined
    const evicted = this.#evicted
    this.#evicted = 0
    return `evicts no keys any more; it had evicted ${evicted}`
  }
}
