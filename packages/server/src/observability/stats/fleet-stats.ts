/**
 * What all nodes saw, as far as this one knows: it leaves its own sight on the board every two
 * seconds, and reads those of the others when somebody asks. A board that does not answer leaves it
 * with its own.
 */
import type { Alert } from '../alerts/alert.js'
import { addCallerDetails } from '../alerts/conditions/caller-exhausted.js'
import type { PeerClock } from '../alerts/conditions/clock-offset.js'
import type { WallClock } from '../../lib/wall-clock.js'
import { type Scheduler, systemScheduler } from '../../lib/scheduler.js'
import { CooperativeYield } from '../../lib/cooperative-yield.js'
import { type SnapshotExchange, POST_EVERY_MS } from './snapshot-exchange.js'
import { callersSinceMs, mergeCallers } from './callers/merge-callers.js'
import { mergeStats, nodeViews, type FleetSnapshot, tickOf } from './merge-snapshots.js'
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
  /** Of this node. @default as its sight told last */
  readonly alerts?: (() => AlertLists) | undefined
  /** How the names of callers are posted. */
  readonly names: NameProtection
  /** @default those of the system */
  readonly timers?: Scheduler | undefined
  /** Told when posts begin to fail, and not again before one has come through. */
  readonly onProblem?: ((error: unknown) => void) | undefined
}

/** Whoever asks within this time is told the same. */
const SNAPSHOT_EVERY_MS = 1000
/** Of a fleet that is larger, so many are told of. */
const NODES_MAX = 1000

/** What was seen at one look, and what was made of it. */
interface CachedFleetSnapshot extends FleetSnapshot {
  stats: Promise<StatsView> | undefined
}

export class FleetStats {
  readonly #deps: FleetStatsDeps
  readonly #timers: Scheduler
  #snapshot: Promise<CachedFleetSnapshot> | undefined
  #snapshotMs = -Infinity
  #isTaking = false
  /** Texts that were read at the last look: half of them are the same at the next. */
  #read = new Map<string, NodeSnapshot | undefined>()
  #cancel: (() => void) | undefined
  #posting: Promise<void> | undefined
  #isFailing = false
  #isClosed = false

  constructor(deps: FleetStatsDeps) {
    this.#deps = deps
    this.#timers = deps.timers ?? systemScheduler
  }

  /** Begins to post. Nobody reads what is left on a board that no other node sees. */
  start(): void {
    if (this.#isClosed || this.#deps.exchange.isAlone === true) return
    this.#cancel = this.#timers.after(POST_EVERY_MS, () => this.postAgain())
  }

  /** Ends posting; what was posted ends by itself, or with the store. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await this.#posting
  }

  /** Of one rule, or of the busiest. */
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
    }
  }

  /** Adds what this node knows of a caller that other nodes tell by its hash alone. */
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

  /** Of all nodes: what several see is one. */
  async alerts(): Promise<AlertLists> {
    const { own, others } = await this.snapshot()
    // What began here a moment ago is known without a look.
    const ownAlerts = this.#deps.alerts?.() ?? own.alerts
    const { active, recent } = mergeAlerts([ownAlerts, ...others.map(({ alerts }) => alerts)])
    return {
      active: active.map((alert) => this.addNameToAlert(alert)),
      recent: recent.map((alert) => this.addNameToAlert(alert)),
    }
  }

  /** Those that have told of themselves lately, this one first. */
  async nodes(): Promise<readonly NodeSnapshotView[]> {
    return nodeViews(await this.snapshot())
  }

  /** The clocks of the other nodes, by those of the store that each of them reads. */
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

  /** The last step of everything, and of the busiest rules. */
  async tick(): Promise<TickView> {
    return tickOf(await this.statsOf(await this.snapshot()))
  }

  private statsOf(snapshot: CachedFleetSnapshot): Promise<StatsView> {
    snapshot.stats ??= mergeStats(snapshot)
    return snapshot.stats
  }

  /** One for all who ask at the same time. */
  private snapshot(): Promise<CachedFleetSnapshot> {
    const nowMs = this.#deps.clock.now()
    // A clock that was put back must not keep anybody with what is old.
    const isFresh = Math.abs(nowMs - this.#snapshotMs) < SNAPSHOT_EVERY_MS
    if (this.#snapshot !== undefined && (isFresh || this.#isTaking)) return this.#snapshot
    this.#snapshotMs = nowMs
    this.#isTaking = true
    const snapshot = this.takeSnapshot(nowMs).finally(() => {
      this.#isTaking = false
    })
    this.#snapshot = snapshot
    // What failed must not be told to those who come next.
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
    // Made last: it is the latest that there is.
    const own = this.#deps.own.snapshot(nowMs)
    return { own, others: othersOf(own, read.values()), isWhole, atMs: nowMs, stats: undefined }
  }

  private async readSnapshot(text: string): Promise<NodeSnapshot | undefined> {
    const nodeSnapshot = await decodeSnapshot(text)
    return nodeSnapshot && revealNames(nodeSnapshot, this.#deps.names)
  }

  /** Undefined where it does not answer; a node that is meant to be alone misses nobody. */
  private async readExchange(): Promise<readonly string[] | undefined> {
    const { exchange } = this.#deps
    if (exchange.isAlone === true) return []
    try {
      return await exchange.read()
    } catch {
      // Whoever posts every two seconds notices as well, and tells it once.
      return undefined
    }
  }

  private postAgain(): void {
    this.#posting = this.post().finally(() => {
      if (this.#isClosed) return
      this.#cancel = this.#timers.after(POST_EVERY_MS, () => this.postAgain())
    })
  }

  /** Never rejects: what was seen is kept here, and posted the next time. */
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

/** Each node once, as it told last; the own is known better. */
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
