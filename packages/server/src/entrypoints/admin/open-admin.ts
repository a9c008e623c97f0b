/** Creates the admin API of a running server. */
import { wallClock } from '../../lib/wall-clock.js'
import type { Config } from '../../config/config.js'
import { createEditor } from '../../rules/editor/editor.js'
import { ruleContextOf } from '../../config/rule-context.js'
import { type Engine, secretAttributes } from '../../engine.js'
import { createSecretMasker } from '../../identity/masked-value.js'
import type { Log } from '../../observability/log/logger.js'
import { nodeProblem } from '../../rules/sync/rule-follower.js'
import { responseClock } from '../../counter-store/response-clock.js'
import { type Admin, createAdmin } from './admin.js'
import type { AdminDeps } from './admin-deps.js'
import { ringMembersOf } from './ring-members.js'
import { isClientTls } from './transport-security.js'

export interface OpenAdminDeps extends Pick<AdminDeps, 'fleetStats' | 'alerts'> {
  readonly log: Log
  readonly rootToken: string
  readonly metricsText: () => string | Promise<string>
}

export function openAdmin(
  config: Config,
  { ruleFollower, node, decider, counterStore }: Engine,
  { log, rootToken, metricsText, fleetStats, alerts }: OpenAdminDeps,
): Admin {
  const hideSecrets = createSecretMasker(counterStore.secret, secretAttributes(config))
  const { ipv6Prefix } = config.identity
  const ruleContext = ruleContextOf(config)
  return createAdmin({
    metricsText,
    editor: createEditor({
      follower: ruleFollower,
      clock: wallClock,
      hideSecrets,
      ipv6Prefix,
      ruleContext,
      log,
    }),
    ruleFollower,
    decider,
    fleetStats,
    alerts,
    rootToken,
    clock: wallClock,
    responseClock: responseClock(counterStore.store, wallClock),
    log,
    hideSecrets,
    ipv6Prefix,
    ruleContext,
    isEncrypted: (request) => isClientTls(config, request),
    ring: counterStore.ring && (() => ringMembersOf(counterStore)),
    regions: counterStore.regional && (() => counterStore.regional?.regionStats() ?? []),
    node: () => ({
      ...node,
      rulesVersion: ruleFollower.version(),
      problem: nodeProblem(ruleFollower),
    }),
  })
}
