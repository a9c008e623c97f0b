/**
 * The least rights that the store's user in Redis needs. Nothing here reads another prefix, lists
 * keys or changes the configuration of Redis.
 */

/** The commands that scripts call; the user needs the right to each. */
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
/**
 * The commands that are sent directly; `select` if the URL names a database, `role` with Sentinel.
 */
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
 * The rest of `ACL SETUSER name on >password`. The channel is for announcements of refunds and
 * resets; before Redis 6.2 there were no rights to channels.
 */
export function storeAcl(prefix: string): string {
  const places = [`~${prefix}:*`, 'resetchannels', `&${prefix}:*`]
  return [...places, '-@all', ...STORE_COMMANDS.map((command) => `+${command}`)].join(' ')
}

/** What the nodes of other regions send: no script by its source, and no announcement. */
const GUEST_COMMANDS: readonly string[] = [
  ...new Set(['evalsha', 'ping', 'role', 'select', ...SCRIPT_COMMANDS, ...CLUSTER_COMMANDS]),
].toSorted()

/**
 * The same for the nodes of other regions, which run only the scripts that this region's own nodes
 * have loaded. Whoever has these rights can charge and reset every counter of the prefix.
 */
export function guestAcl(prefix: string): string {
  const rights = GUEST_COMMANDS.map((command) => `+${command}`)
  return [`~${prefix}:*`, 'resetchannels', '-@all', ...rights].join(' ')
}

/** The rights of a guest for the default prefix. */
export const GUEST_ACL = guestAcl('sluice')

/** The rights for the default prefix. */
export const STORE_ACL = storeAcl('sluice')
