/**
 * Notices that npm has stopped the shell in which it runs this command.
 *
 * `npx sluice serve` and scripts of a package.json are run by `sh -c`. npm forwards SIGTERM to that
 * shell alone, which ends without forwarding it: the server would serve on, as an orphan.
 */

/** The latest that a server follows its shell. */
const POLL_MS = 250

export interface NpmShellDeps {
  /** The process that started this one. */
  readonly shellId: number
  /** The present parent of this process. An orphan gets another one. */
  readonly parentId: () => number
  readonly onEnd: () => void
}

/**
 * Calls `onEnd` once when the shell has ended, without keeping the process alive. Returns a
 * function that stops watching.
 */
export function watchNpmShell({ shellId, parentId, onEnd }: NpmShellDeps): () => void {
  const stop = () => clearInterval(timer)
  const timer = setInterval(() => {
    if (parentId() === shellId) return
    stop()
    onEnd()
  }, POLL_MS)
  timer.unref()
  return stop
}
