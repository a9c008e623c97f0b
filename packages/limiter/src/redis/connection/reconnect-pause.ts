/** When a lost connection is tried again. Together with the timeout of a try, below a second. */

/** From the first byte asked for to the next that comes; a node that takes longer is given up. */
export const CONNECT_TIMEOUT_MS = 750

const PAUSE_MS_MIN = 50
const PAUSE_MS_MAX = 500
const PAUSE_AFTER_TIMEOUT_MS_MAX = 150

/**
 * The pause before the next try. It is drawn anew each time, so that all the nodes which lost the
 * same Redis in the same moment do not come back in the same moment. A try that timed out has
 * waited already.
 */
export function reconnectPauseMs(timedOut: boolean, random: () => number): number {
  const most = timedOut ? PAUSE_AFTER_TIMEOUT_MS_MAX : PAUSE_MS_MAX
  return PAUSE_MS_MIN + random() * (most - PAUSE_MS_MIN)
}
