/** The admin API over the parts of a running server. */
import { wallClock } from '../clock.js'
import type { Config } from '../config/config.js'
import { createEditor } from '../editor/editor.js'
import { headerAttributes } from '../config/header-attributes.js'
import { type Engine, secretAttributes } from '../engine.js'
import { createSecretMasker } from '../identity/secret-form.js'
import type { Log } from '../log/logger.js'
import { nodeProblem } from '../source/rule-source.js'
import { responseClock } from '../store/response-clock.js'
import { type Admin, createAdmin } from './admin.js'
import type { AdminDeps } from './admin-parts.js'
import { isClientTls } from './encrypted.js'

export interface OpenAdminDeps extends Pick<AdminDeps, 'sight' | 'alerts'> {
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
  const fromHeaders = headerAttributes(config)
  return createAdmin({
    metricsText,
    editor: createEditor({
      follower: ruleFollower,
      clock: wallClock,
      hideSecrets,
      ipv6Prefix,
      fromHeaders,
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
    fromHeaders,
    isEncrypted: (request) => isClientTls(config, request),
    node: () => ({
      ...node,
      rulesVersion: ruleFollower.version(),
      problem: nodeProblem(ruleFollower),
    }),
  })
}
