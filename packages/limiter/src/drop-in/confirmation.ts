/** Waits for a change of the store, and not longer than a deadline. */
import { isMisuse } from '../store-answer.js'

/**
 * Resolves to whether the store confirmed a change in time. Rejects only if the change was a
 * misuse.
 */
export async function isConfirmedWithin(
  deadlineMs: number,
  changed: Promise<unknown>,
): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, deadlineMs, false)
  })
  try {
    return await Promise.race([changed.then(() => true), late])
  } catch (error) {
    if (isMisuse(error)) throw error
    return false
  } finally {
    clearTimeout(timer)
  }
}
