/** The dependencies of the admin API. */
import type { RingMemberView } from '@sluice/api'
import type { RegionStats } from '@sluice/limiter'
import type { IncomingMessage } from 'node:http'
import type { Attributes, RuleContext } from '@sluice/core'
import type { Alerts } from '../../observability/alerts/alert.js'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Decider } from '../../decide.js'
import type { Editor } from '../../rules/editor/editor.js'
import type { Log } from '../../observability/log/logger.js'
import type { NodeReport } from '../../rules/store/rule-store.js'
import type { RuleFollower } from '../../rules/sync/rule-follower.js'
import type { Scheduler } from '../../lib/scheduler.js'
import type { AlertLists } from '../../observability/stats/node-snapshot.js'
import type {
  NodeSnapshotView,
  StatsView,
  TickView,
  TopOrder,
  TopView,
} from '../../observability/stats/stats-views.js'

/** Statistics of all nodes, as far as this node has their snapshots. May be called often. */
export interface FleetStatsReader {
  /** Statistics of one rule, or of the busiest. */
  stats(rule?: string): Promise<StatsView>
  top(
    by: TopOrder,
    filter: { readonly rule: string | undefined; readonly limit: number },
  ): Promise<TopView>
  nodes(): Promise<readonly NodeSnapshotView[]>
  /** An alert that several nodes report is one. */
  alerts(): Promise<Pick<AlertLists, 'active' | 'recent'>>
  tick(): Promise<TickView>
}

export interface AdminDeps {
  readonly metricsText: () => string | Promise<string>
  readonly editor: Editor
  readonly ruleFollower: RuleFollower
  readonly decider: Decider
  readonly fleetStats: FleetStatsReader
  /** Reports alerts that begin or end on this node. */
  readonly alerts: Pick<Alerts, 'onChange'>
  /** The token that the server was started with, or generated. */
  readonly rootToken: string
  readonly clock: WallClock
  /** The clock of instants in responses. @default `clock` */
  readonly responseClock?: WallClock | undefined
  readonly log: Log
  /** Masks secret attributes as every entry point does; see identity/masked-value.ts. */
  readonly hideSecrets: (attributes: Attributes) => Attributes
  /** How many bits of an IPv6 address identify a caller. @default 64 */
  readonly ipv6Prefix?: number | undefined
  /** What is known of this node, for warnings about rules. @default nothing */
  readonly ruleContext?: RuleContext | undefined
  /** The other regions. @default there is only one */
  readonly regions?: (() => readonly RegionStats[]) | undefined
  /** The members of the ring. @default there is none */
  readonly ring?: (() => readonly RingMemberView[]) | undefined
  /** The report of this node. */
  readonly node: () => NodeReport
  /** The address whose wrong tokens count together. @default the address of the connection */
  readonly addressOf?: ((request: IncomingMessage) => string | undefined) | undefined
  /** Whether the request was encrypted on its way. @default whether the connection itself is TLS */
  readonly isEncrypted?: ((request: IncomingMessage) => boolean) | undefined
  /** The timers of event streams. @default those of the system */
  readonly timers?: Scheduler | undefined
  /** The files of the dashboard, by their path. @default those of @sluice/dashboard */
  readonly dashboardFiles?: ReadonlyMap<string, string> | undefined
}
