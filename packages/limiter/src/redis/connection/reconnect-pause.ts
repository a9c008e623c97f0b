/** When a lost connection is retried: within a second, including the timeout of an attempt. */

/** The time between two signs of life of a node while connecting, after which it is given up. */
export const CONNECT_TIMEOUT_MS = 750

const PAUSE_MS_MIN = 50
const PAUSE_MS_MAX = 500
const PAUSE_AFTER_TIMEOUT_MS_MAX = 150

/**
 * The pause before the next attempt. It is random, so that nodes which lost the same Redis at the
 * same moment do not return at the same moment. An attempt that timed out has waited already.
 */
export function reconnectPauseMs(timedOut: boolean, random: () => number): number {
  const most = timedOut ? PAUSE_AFTER_TIMEOUT_MS_MAX : PAUSE_MS_MAX
  return PAUSE_MS_MIN + random() * (most - PAUSE_MS_MIN)
}
