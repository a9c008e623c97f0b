/** What the admin API is made of. */
import type { IncomingMessage } from 'node:http'
import type { Attributes } from '@sluice/core'
import type { WallClock } from '../clock.js'
import type { Decider } from '../decider.js'
import type { Editor } from '../editor/editor-types.js'
import type { Log } from '../log/logger.js'
import type { NodeReport } from '../rule-store/rule-store.js'
import type { RuleSource } from '../source/rule-source.js'

export interface AdminParts {
  readonly metricsText: () => string | Promise<string>
  readonly editor: Editor
  readonly source: RuleSource
  readonly decider: Decider
  /** The token that the server was started with, or made. */
  readonly rootToken: string
  readonly clock: WallClock
  readonly log: Log
  /** Makes secret attributes what they are at every door; see identity/secret-form.ts. */
  readonly hideSecrets: (attributes: Attributes) => Attributes
  /** How many bits of an IPv6 address make a caller. @default 64 */
  readonly ipv6Prefix?: number | undefined
  /** What this node would report of itself. */
  readonly node: () => NodeReport
  /** Whose wrong tokens count together. @default the address of the connection */
  readonly addressOf?: ((request: IncomingMessage) => string | undefined) | undefined
}
