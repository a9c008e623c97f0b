/** Where alerts go beside the log, as it is configured. */
import { hostname } from 'node:os'
import { monotonicMs } from '../../lib/wall-clock.js'
import type { Config } from '../../config/config.js'
import type { Log } from '../log/logger.js'
import { Webhook } from './webhook.js'

/** Undefined: nowhere. */
export function openWebhook(config: Pick<Config, 'alerts' | 'log'>, log: Log): Webhook | undefined {
  const { webhook } = config.alerts
  if (webhook === undefined) return undefined
  const { callers } = config.log
  return new Webhook({ ...webhook, host: hostname(), callers, log, nowMs: monotonicMs })
}
