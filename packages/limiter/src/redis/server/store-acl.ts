/**
 * The least that the store's user in Redis must be allowed. A user that may do more can do more
 * harm: nothing here reads another prefix, lists keys or changes how Redis runs.
 */

/** What the scripts call; a user needs the right to each as if it sent it itself. */
export const SCRIPT_COMMANDS: readonly string[] = [
  'del',
  'get',
  'getrange',
  'hdel',
  'hget',
  'hgetall',
  'hlen',
  'hset',
  'mget',
  'object|encoding',
  'pexpire',
  'pttl',
  'set',
  'setrange',
  'strlen',
  'time',
  'zadd',
  'zcard',
  'zrangebyscore',
  'zrem',
  'zremrangebyscore',
  'zscore',
]
/** What is sent as it is; `select` only where the URL names a database, `role` behind Sentinel. */
const SENT_COMMANDS = [
  'del',
  'eval',
  'evalsha',
  'expire',
  'get',
  'info',
  'mget',
  'ping',
  'publish',
  'role',
  'select',
  'set',
  'subscribe',
  'time',
  'zrangebyscore',
]
/** To learn which node has which slots, and to follow a redirection. */
const CLUSTER_COMMANDS = ['asking', 'cluster|slots']

export const STORE_COMMANDS: readonly string[] = [
  ...new Set([...SENT_COMMANDS, ...SCRIPT_COMMANDS, ...CLUSTER_COMMANDS]),
].toSorted()

/**
 * For `ACL SETUSER name on >password`, after it. The channel is where nodes announce refunds and
 * resets to each other; before Redis 6.2 there were no rights to channels.
 */
export function storeAcl(prefix: string): string {
  const places = [`~${prefix}:*`, 'resetchannels', `&${prefix}:*`]
  return [...places, '-@all', ...STORE_COMMANDS.map((command) => `+${command}`)].join(' ')
}

/** The same for the prefix that is used if none is given. */
export const STORE_ACL = storeAcl('sluice')
