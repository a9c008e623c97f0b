/** What the admin API is made of. */
import type { IncomingMessage } from 'node:http'
import type { Attributes } from '@sluice/core'
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

/** What all nodes saw, as far as this one knows. Each may be asked at any time, and often. */
export interface FleetStatsReader {
  /** Of one rule, or of the busiest. */
  stats(rule?: string): Promise<StatsView>
  top(
    by: TopOrder,
    filter: { readonly rule: string | undefined; readonly limit: number },
  ): Promise<TopView>
  nodes(): Promise<readonly NodeSnapshotView[]>
  /** What several nodes see is one. */
  alerts(): Promise<Pick<AlertLists, 'active' | 'recent'>>
  tick(): Promise<TickView>
}

export interface AdminDeps {
  readonly metricsText: () => string | Promise<string>
  readonly editor: Editor
  readonly ruleFollower: RuleFollower
  readonly decider: Decider
  readonly fleetStats: FleetStatsReader
  /** Those that this node sees begin and end. */
  readonly alerts: Pick<Alerts, 'onChange'>
  /** The token that the server was started with, or made. */
  readonly rootToken: string
  readonly clock: WallClock
  /** For instants in responses. @default `clock` */
  readonly responseClock?: WallClock | undefined
  readonly log: Log
  /** Makes secret attributes what they are at every door; see identity/secret-form.ts. */
  readonly hideSecrets: (attributes: Attributes) => Attributes
  /** How many bits of an IPv6 address make a caller. @default 64 */
  readonly ipv6Prefix?: number | undefined
  /** Attributes that callers may set themselves, by a header. @default not known */
  readonly fromHeaders?: ReadonlySet<string> | undefined
  /** What this node would report of itself. */
  readonly node: () => NodeReport
  /** Whose wrong tokens count together. @default the address of the connection */
  readonly addressOf?: ((request: IncomingMessage) => string | undefined) | undefined
  /** Whether nobody on the way can read it. @default whether the connection itself is TLS */
  readonly isEncrypted?: ((request: IncomingMessage) => boolean) | undefined
  /** For the streams of events. @default those of the system */
  readonly timers?: Scheduler | undefined
  /** Where the files of the dashboard are. @default those of @sluice/dashboard */
  readonly dashboardFolder?: string | undefined
}
