import { setTimeout as sleep } from 'node:timers/promises'

const WAIT_MS_MAX = 45_000
const POLL_EVERY_MS = 20

/**
 * Polls until a value is defined and returns it. The server may be down for a moment: an error
 * counts as undefined, and is reported if the wait times out.
 */
export async function waitFor<Found>(
  what: string,
  probe: () => Promise<Found | false | undefined>,
): Promise<Found> {
  const until = Date.now() + WAIT_MS_MAX
  let problem: unknown
  while (Date.now() < until) {
    try {
      const result = await probe()
      if (result !== false && result !== undefined) return result
    } catch (error) {
      problem = error
    }
    await sleep(POLL_EVERY_MS)
  }
  throw new Error(`${what}: not within ${WAIT_MS_MAX} ms`, { cause: problem })
}
