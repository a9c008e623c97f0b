/**
 * Statistics of the whole fleet: publishes this node's snapshot every two seconds, and reads and
 * merges those of the others on request. If the exchange does not answer, the statistics cover
 * this node only.
 */
import type { Alert } from '../alerts/alert.js'
import { addCallerDetails } from '../alerts/conditions/caller-exhausted.js'
import type { PeerClock } from '../alerts/conditions/clock-offset.js'
import type { WallClock } from '../../lib/wall-clock.js'
import { type Scheduler, systemScheduler } from '../../lib/scheduler.js'
import { CooperativeYield } from '../../lib/cooperative-yield.js'
import { type SnapshotExchange, POST_EVERY_MS } from './snapshot-exchange.js'
import { callersSinceMs, mergeCallers } from './callers/merge-callers.js'
import { type FleetSnapshot, mergeStats, nodeViews, shedRates, tickOf } from './merge-snapshots.js'
import { mergeAlerts } from './merge-alerts.js'
import type { NameProtection } from './name-protection.js'
import type { NodeSnapshot, AlertLists } from './node-snapshot.js'
import type { NodeStats } from './node-stats.js'
import { hideNames, revealNames } from './published-names.js'
import { decodeSnapshot, encodeSnapshot } from './node-snapshot-codec.js'
import type {
  NodeSnapshotView,
  StatsView,
  TickView,
  TopCallerView,
  TopOrder,
  TopView,
} from './stats-views.js'

export interface FleetStatsDeps {
  readonly own: Pick<NodeStats, 'snapshot' | 'rule' | 'nameOf'>
  readonly exchange: SnapshotExchange
  readonly clock: WallClock
  /** The alerts of this node. @default those of its last snapshot */
  readonly alerts?: (() => AlertLists) | undefined
  /** How the names of callers are published. */
  readonly names: NameProtection
  /** @default the timers of the system */
  readonly timers?: Scheduler | undefined
  /** Called when publishing begins to fail; again only after a success in between. */
  readonly onProblem?: ((error: unknown) => void) | undefined
}

/** Requests within this time share one fleet snapshot. */
const SNAPSHOT_EVERY_MS = 1000
/** Nodes merged at most. */
const NODES_MAX = 1000

/** A fleet snapshot and the statistics computed from it. */
interface CachedFleetSnapshot extends FleetSnapshot {
  stats: Promise<StatsView> | undefined
}

export class FleetStats {
  readonly #deps: FleetStatsDeps
  readonly #timers: Scheduler
  #snapshot: Promise<CachedFleetSnapshot> | undefined
  #snapshotMs = -Infinity
  #isTaking = false
  /** Snapshots decoded for the last request, by text: half of them are unchanged at the next. */
  #read = new Map<string, NodeSnapshot | undefined>()
  #cancel: (() => void) | undefined
  #posting: Promise<void> | undefined
  #isFailing = false
  #isClosed = false

  constructor(deps: FleetStatsDeps) {
    this.#deps = deps
    this.#timers = deps.timers ?? systemScheduler
  }

  /** Begins to publish, unless there is only this node. */
  start(): void {
    if (this.#isClosed || this.#deps.exchange.isAlone === true) return
    this.#cancel = this.#timers.after(POST_EVERY_MS, () => this.postAgain())
  }

  /** Stops publishing; the published snapshot expires. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await this.#posting
  }

  /** Returns the statistics of one rule, or of the busiest rules. */
  async stats(rule?: string): Promise<StatsView> {
    const snapshot = await this.snapshot()
    if (rule === undefined) return this.statsOf(snapshot)
    const isIncluded = snapshot.own.rules.some((known) => known.rule === rule)
    const ruleSnapshot = isIncluded ? undefined : this.#deps.own.rule(rule)
    const own =
      ruleSnapshot === undefined ? snapshot.own : { ...snapshot.own, rules: [ruleSnapshot] }
    return mergeStats({ ...snapshot, own }, rule)
  }

  async top(
    by: TopOrder,
    query: { readonly rule?: string | undefined; readonly limit: number },
  ): Promise<TopView> {
    const { own, others, isWhole, atMs } = await this.snapshot()
    const all = [own, ...others]
    return {
      at: new Date(atMs).toISOString(),
      since: new Date(callersSinceMs(all, atMs)).toISOString(),
      by,
      nodes: all.length,
      isWhole,
      callers: (await mergeCallers(all, by, query, atMs)).map((row) => this.addName(row)),
      shed: shedRates(all),
    }
  }

  /** Adds the name that this node knows for a caller published only by its hash. */
  private addName(row: TopCallerView): TopCallerView {
    const isNamed = Object.keys(row.caller).length > 0
    if (isNamed && row.lastRefusedCall !== null) return row
    const known = this.#deps.own.nameOf(row.rule, row.hash)
    if (known === undefined) return row
    const { caller, plan } = isNamed || Object.keys(known.caller).length === 0 ? row : known
    return { ...row, caller, plan, lastRefusedCall: row.lastRefusedCall ?? known.lastRefusedCall }
  }

  private addNameToAlert(alert: Alert): Alert {
    const { rule, hash, caller } = alert.details
    if (typeof rule !== 'string' || typeof hash !== 'string' || caller !== undefined) return alert
    const known = this.#deps.own.nameOf(rule, hash)
    return known === undefined
      ? alert
      : { ...alert, details: addCallerDetails(alert.details, known) }
  }

  /** Alerts of all nodes; an alert of several nodes is listed once. */
  async alerts(): Promise<AlertLists> {
    const { own, others } = await this.snapshot()
    // The node's own alerts are newer than its snapshot.
    const ownAlerts = this.#deps.alerts?.() ?? own.alerts
    const { active, recent } = mergeAlerts([ownAlerts, ...others.map(({ alerts }) => alerts)])
    return {
      active: active.map((alert) => this.addNameToAlert(alert)),
      recent: recent.map((alert) => this.addNameToAlert(alert)),
    }
  }

  /** Nodes with a current snapshot, this one first. */
  async nodes(): Promise<readonly NodeSnapshotView[]> {
    return nodeViews(await this.snapshot())
  }

  /** The clocks of the other nodes, relative to the Redis clocks that each of them reads. */
  async peerClocks(): Promise<readonly PeerClock[]> {
    const { others } = await this.snapshot()
    return others.map(({ node: { id, host }, storeHealth }) => ({
      id,
      host,
      offsets: storeHealth.nodes.flatMap(({ address, isAnswering, clockOffsetMs: offsetMs }) =>
        isAnswering && offsetMs !== null ? { store: address, offsetMs } : [],
      ),
    }))
  }

  /** The last bucket of the totals and of the busiest rules. */
  async tick(): Promise<TickView> {
    return tickOf(await this.statsOf(await this.snapshot()))
  }

  private statsOf(snapshot: CachedFleetSnapshot): Promise<StatsView> {
    snapshot.stats ??= mergeStats(snapshot)
    return snapshot.stats
  }

  /** Concurrent requests share one snapshot. */
  private snapshot(): Promise<CachedFleetSnapshot> {
    const nowMs = this.#deps.clock.now()
    // Absolute, because after the clock was set back an old snapshot must not look fresh.
    const isFresh = Math.abs(nowMs - this.#snapshotMs) < SNAPSHOT_EVERY_MS
    if (this.#snapshot !== undefined && (isFresh || this.#isTaking)) return this.#snapshot
    this.#snapshotMs = nowMs
    this.#isTaking = true
    const snapshot = this.takeSnapshot(nowMs).finally(() => {
      this.#isTaking = false
    })
    this.#snapshot = snapshot
    // A failed snapshot must not be served to later requests.
    snapshot.catch(() => {
      if (this.#snapshot === snapshot) this.#snapshot = undefined
    })
    return snapshot
  }

  private async takeSnapshot(nowMs: number): Promise<CachedFleetSnapshot> {
    const texts = await this.readExchange()
    const isWhole = texts !== undefined
    const read = new Map<string, NodeSnapshot | undefined>()
    const slices = new CooperativeYield()
    for (const text of (texts ?? []).slice(0, NODES_MAX)) {
      read.set(text, this.#read.has(text) ? this.#read.get(text) : await this.readSnapshot(text))
      if (slices.isDue()) await slices.pause()
    }
    this.#read = read
    // Taken last, so that it is the newest.
    const own = this.#deps.own.snapshot(nowMs)
    return { own, others: othersOf(own, read.values()), isWhole, atMs: nowMs, stats: undefined }
  }

  private async readSnapshot(text: string): Promise<NodeSnapshot | undefined> {
    const nodeSnapshot = await decodeSnapshot(text)
    return nodeSnapshot && revealNames(nodeSnapshot, this.#deps.names)
  }

  /** Returns undefined if the exchange does not answer. */
  private async readExchange(): Promise<readonly string[] | undefined> {
    const { exchange } = this.#deps
    if (exchange.isAlone === true) return []
    try {
      return await exchange.read()
    } catch {
      // Publishing fails as well and reports the problem.
      return undefined
    }
  }

  private postAgain(): void {
    this.#posting = this.post().finally(() => {
      if (this.#isClosed) return
      this.#cancel = this.#timers.after(POST_EVERY_MS, () => this.postAgain())
    })
  }

  /** Never rejects: the next post contains everything again. */
  private async post(): Promise<void> {
    const { own, exchange, clock, names } = this.#deps
    try {
      const hide = (nodeSnapshot: NodeSnapshot) => hideNames(nodeSnapshot, names)
      const text = await encodeSnapshot(own.snapshot(clock.now()), { hide })
      if (this.#isClosed) return
      await exchange.post(text)
      this.#isFailing = false
    } catch (error) {
      if (!this.#isFailing) this.#deps.onProblem?.(error)
      this.#isFailing = true
    }
  }
}

/** The latest snapshot of each other node. */
function othersOf(
  own: NodeSnapshot,
  read: Iterable<NodeSnapshot | undefined>,
): readonly NodeSnapshot[] {
  const byId = new Map<string, NodeSnapshot>()
  for (const nodeSnapshot of read) {
    if (nodeSnapshot === undefined || nodeSnapshot.node.id === own.node.id) continue
    const known = byId.get(nodeSnapshot.node.id)
    if (known === undefined || known.atMs < nodeSnapshot.atMs)
      byId.set(nodeSnapshot.node.id, nodeSnapshot)
  }
  return [...byId.values()]
}
