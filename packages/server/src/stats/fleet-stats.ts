/**
 * What all nodes saw, as far as this one knows: it leaves its own sight on the board every two
 * seconds, and reads those of the others when somebody asks. A board that does not answer leaves it
 * with its own.
 */
import type { Alert } from '../alerts/alert.js'
import { addCaller } from '../alerts/conditions/caller-at-zero.js'
import type { PeerClock } from '../alerts/conditions/clocks.js'
import type { WallClock } from '../clock.js'
import { type Timers, systemTimers } from '../source/timers.js'
import { TimeSlices } from '../time-slices.js'
import { type Board, POST_EVERY_MS } from './board.js'
import { callersSinceMs, mergeCallers } from './callers/merge-callers.js'
import { mergeStats, nodeViews, type Sights, tickOf } from './merge-sights.js'
import type { TopCallerView } from './callers/top-view.js'
import { mergeAlerts } from './merge-alerts.js'
import type { NameProtection } from './name-protection.js'
import type { NodeSight, SeenAlerts } from './node-sight.js'
import type { NodeStats } from './node-stats.js'
import { hideNames, revealNames } from './published-names.js'
import { readSight, writeSight } from './sight-text.js'
import type { SightNodeView, StatsView, TickView, TopOrder, TopView } from './views.js'

export interface FleetStatsParts {
  readonly own: Pick<NodeStats, 'sight' | 'rule' | 'nameOf'>
  readonly board: Board
  readonly clock: WallClock
  /** Of this node. @default as its sight told last */
  readonly alerts?: (() => SeenAlerts) | undefined
  /** How the names of callers are posted. */
  readonly names: NameProtection
  /** @default those of the system */
  readonly timers?: Timers | undefined
  /** Told when posts begin to fail, and not again before one has come through. */
  readonly onProblem?: ((error: unknown) => void) | undefined
}

/** Whoever asks within this time is told the same. */
const LOOK_EVERY_MS = 1000
/** Of a fleet that is larger, so many are told of. */
const NODES_MAX = 1000

/** What was seen at one look, and what was made of it. */
interface Look extends Sights {
  stats: Promise<StatsView> | undefined
}

export class FleetStats {
  readonly #parts: FleetStatsParts
  readonly #timers: Timers
  #look: Promise<Look> | undefined
  #lookedMs = -Infinity
  #isLooking = false
  /** Texts that were read at the last look: half of them are the same at the next. */
  #read = new Map<string, NodeSight | undefined>()
  #cancel: (() => void) | undefined
  #posting: Promise<void> | undefined
  #isFailing = false
  #isClosed = false

  constructor(parts: FleetStatsParts) {
    this.#parts = parts
    this.#timers = parts.timers ?? systemTimers
  }

  /** Begins to post. Nobody reads what is left on a board that no other node sees. */
  start(): void {
    if (this.#isClosed || this.#parts.board.isAlone === true) return
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
    const look = await this.look()
    if (rule === undefined) return this.statsOf(look)
    const isTold = look.own.rules.some((told) => told.rule === rule)
    const seen = isTold ? undefined : this.#parts.own.rule(rule)
    const own = seen === undefined ? look.own : { ...look.own, rules: [seen] }
    return mergeStats({ ...look, own }, rule)
  }

  async top(
    by: TopOrder,
    asked: { readonly rule?: string | undefined; readonly limit: number },
  ): Promise<TopView> {
    const { own, others, isWhole, atMs } = await this.look()
    const all = [own, ...others]
    return {
      at: new Date(atMs).toISOString(),
      since: new Date(callersSinceMs(all, atMs)).toISOString(),
      by,
      nodes: all.length,
      isWhole,
      callers: (await mergeCallers(all, by, asked, atMs)).map((row) => this.named(row)),
    }
  }

  /** Adds what this node knows of a caller that other nodes tell by its hash alone. */
  private named(row: TopCallerView): TopCallerView {
    const isNamed = Object.keys(row.caller).length > 0
    if (isNamed && row.lastRefusedCall !== null) return row
    const known = this.#parts.own.nameOf(row.rule, row.hash)
    if (known === undefined) return row
    const { caller, plan } = isNamed || Object.keys(known.caller).length === 0 ? row : known
    return { ...row, caller, plan, lastRefusedCall: row.lastRefusedCall ?? known.lastRefusedCall }
  }

  private namedAlert(alert: Alert): Alert {
    const { rule, hash, caller } = alert.details
    if (typeof rule !== 'string' || typeof hash !== 'string' || caller !== undefined) return alert
    const known = this.#parts.own.nameOf(rule, hash)
    return known === undefined ? alert : { ...alert, details: addCaller(alert.details, known) }
  }

  /** Of all nodes: what several see is one. */
  async alerts(): Promise<SeenAlerts> {
    const { own, others } = await this.look()
    // What began here a moment ago is known without a look.
    const ownAlerts = this.#parts.alerts?.() ?? own.alerts
    const { active, recent } = mergeAlerts([ownAlerts, ...others.map(({ alerts }) => alerts)])
    return {
      active: active.map((alert) => this.namedAlert(alert)),
      recent: recent.map((alert) => this.namedAlert(alert)),
    }
  }

  /** Those that have told of themselves lately, this one first. */
  async nodes(): Promise<readonly SightNodeView[]> {
    return nodeViews(await this.look())
  }

  /** The clocks of the other nodes, by those of the store that each of them reads. */
  async peerClocks(): Promise<readonly PeerClock[]> {
    const { others } = await this.look()
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
    return tickOf(await this.statsOf(await this.look()))
  }

  private statsOf(look: Look): Promise<StatsView> {
    look.stats ??= mergeStats(look)
    return look.stats
  }

  /** One for all who ask at the same time. */
  private look(): Promise<Look> {
    const nowMs = this.#parts.clock.now()
    // A clock that was put back must not keep anybody with what is old.
    const isFresh = Math.abs(nowMs - this.#lookedMs) < LOOK_EVERY_MS
    if (this.#look !== undefined && (isFresh || this.#isLooking)) return this.#look
    this.#lookedMs = nowMs
    this.#isLooking = true
    const look = this.lookNow(nowMs).finally(() => {
      this.#isLooking = false
    })
    this.#look = look
    // What failed must not be told to those who come next.
    look.catch(() => {
      if (this.#look === look) this.#look = undefined
    })
    return look
  }

  private async lookNow(nowMs: number): Promise<Look> {
    const texts = await this.readBoard()
    const isWhole = texts !== undefined
    const read = new Map<string, NodeSight | undefined>()
    const slices = new TimeSlices()
    for (const text of (texts ?? []).slice(0, NODES_MAX)) {
      read.set(text, this.#read.has(text) ? this.#read.get(text) : await this.readPost(text))
      if (slices.isOver()) await slices.pause()
    }
    this.#read = read
    // Made last: it is the latest that there is.
    const own = this.#parts.own.sight(nowMs)
    return { own, others: othersOf(own, read.values()), isWhole, atMs: nowMs, stats: undefined }
  }

  private async readPost(text: string): Promise<NodeSight | undefined> {
    const sight = await readSight(text)
    return sight && revealNames(sight, this.#parts.names)
  }

  /** Undefined where it does not answer; a node that is meant to be alone misses nobody. */
  private async readBoard(): Promise<readonly string[] | undefined> {
    const { board } = this.#parts
    if (board.isAlone === true) return []
    try {
      return await board.read()
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
    const { own, board, clock, names } = this.#parts
    try {
      const hide = (sight: NodeSight) => hideNames(sight, names)
      const text = await writeSight(own.sight(clock.now()), { hide })
      if (this.#isClosed) return
      await board.post(text)
      this.#isFailing = false
    } catch (error) {
      if (!this.#isFailing) this.#parts.onProblem?.(error)
      this.#isFailing = true
    }
  }
}

/** Each node once, as it told last; the own is known better. */
function othersOf(own: NodeSight, read: Iterable<NodeSight | undefined>): readonly NodeSight[] {
  const byId = new Map<string, NodeSight>()
  for (const sight of read) {
    if (sight === undefined || sight.node.id === own.node.id) continue
    const known = byId.get(sight.node.id)
    if (known === undefined || known.atMs < sight.atMs) byId.set(sight.node.id, sight)
  }
  return [...byId.values()]
}
