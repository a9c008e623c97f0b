/**
 * Checks at the start that the Redis user has every right the store needs. Otherwise a missing
 * right would show later and far from its cause: as calls decided by posture, or as a fleet of one.
 */
import { SluiceError } from '@sluice/core'
import { type RunCommand, runScript, luaScript, textOf } from '../connection/run-command.js'
import { RedisReplyError } from '../connection/driver.js'
import { codeOf } from '../pipeline/error-actions.js'
import type { Layout } from '../redis-options.js'

const SCRIPT = luaScript('rights')

/** Harmless in this order on a key that does not exist, which replaces `K`. */
export const PLAIN_COMMANDS: readonly string[] = [
  'time',
  'get K',
  'mget K',
  'strlen K',
  'getrange K 0 0',
  'set K 0 PX 1000',
  'setrange K 0 0',
  'pexpire K 1000',
  'expire K 1',
  'zadd K 0 0',
  'zcard K',
  'zscore K 0',
  'zrangebyscore K 0 0',
  'zrem K 0',
  'zremrangebyscore K 0 0',
  'del K',
]
/** Used by the packed layout only. */
export const PACKED_COMMANDS: readonly string[] = [
  'hget K 0',
  'hgetall K',
  'hlen K',
  'hset K 0 0',
  'hdel K 0',
  'object encoding K',
  'pttl K',
  'del K',
]

export interface RightsOptions {
  /** `host:port`, for messages. */
  readonly address: string
  readonly layout: Layout
  /** A key in a slot of this node; undefined if it has no slot, so there is nothing to run. */
  readonly probeKey: string | undefined
}

/** Rejects with STORE_REFUSED if a right is missing. */
export async function checkRights(run: RunCommand, options: RightsOptions): Promise<void> {
  const { address, layout, probeKey } = options
  if (probeKey === undefined) return
  const commands = layout === 'packed' ? [...PLAIN_COMMANDS, ...PACKED_COMMANDS] : PLAIN_COMMANDS
  const refused = await findRefused(run, probeKey, commands)
  if (refused.length === 0) return
  throw new SluiceError(
    'STORE_REFUSED',
    `Redis at ${address}: the user may not run ${refused.join(', ')}; ` +
      'accepted: a user with the rights in STORE_ACL',
  )
}

async function findRefused(
  run: RunCommand,
  probeKey: string,
  commands: readonly string[],
): Promise<readonly string[]> {
  try {
    const reply = await runScript(run, SCRIPT, [probeKey], commands)
    const names = Array.isArray(reply) ? reply.flatMap((name) => textOf(name) ?? []) : []
    return [...new Set(names)]
  } catch (error) {
    if (!(error instanceof RedisReplyError)) throw error
    // A transient error, for example of a migrating slot, must not keep a node from starting.
    if (codeOf(error.message) !== 'NOPERM') return []
    return /can't access|key/.test(error.message) ? ['scripts on its keys'] : ['evalsha and eval']
  }
}
