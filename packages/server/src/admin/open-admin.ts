/** The admin API over the parts of a running server. */
import { wallClock } from '../clock.js'
import type { Config } from '../config/config.js'
import { createEditor } from '../editor/editor.js'
import { headerAttributes } from '../config/header-attributes.js'
import { type Engine, secretAttributes } from '../engine.js'
import { secretHider } from '../identity/secret-form.js'
import type { Log } from '../log/logger.js'
import { nodeProblem } from '../source/rule-source.js'
import { responseClock } from '../store/response-clock.js'
import { type Admin, createAdmin } from './admin.js'
import type { AdminParts } from './admin-parts.js'
import { isTlsSomewhere } from './encrypted.js'

export interface OpenAdminParts extends Pick<AdminParts, 'sight' | 'alerts'> {
  readonly log: Log
  readonly rootToken: string
  readonly metricsText: () => string | Promise<string>
}

export function openAdmin(
  config: Config,
  { source, node, decider, opened }: Engine,
  { log, rootToken, metricsText, sight, alerts }: OpenAdminParts,
): Admin {
  const hideSecrets = secretHider(opened.secret, secretAttributes(config))
  const { ipv6Prefix } = config.identity
  const fromHeaders = headerAttributes(config)
  return createAdmin({
    metricsText,
    editor: createEditor({
      source,
      clock: wallClock,
      hideSecrets,
      ipv6Prefix,
      fromHeaders,
      log,
    }),
    source,
    decider,
    sight,
    alerts,
    rootToken,
    clock: wallClock,
    responseClock: responseClock(opened.store, wallClock),
    log,
    hideSecrets,
    ipv6Prefix,
    fromHeaders,
    isEncrypted: (request) => isTlsSomewhere(config, request),
    node: () => ({ ...node, rulesVersion: source.version(), problem: nodeProblem(source) }),
  })
}
