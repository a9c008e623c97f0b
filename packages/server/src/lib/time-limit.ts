/** The signal aborts `timeoutMs` after the work began, and when `parent` aborts. */
export interface TimeLimit {
  readonly timeoutMs: number
  readonly parent: AbortSignal
}

/**
 * Runs work that ends early when its signal aborts. `AbortSignal.any` with `AbortSignal.timeout`
 * would be shorter, but Node 20 collects a timeout to which only the combined signal refers: the
 * limit was never reached, and a response without an end held its connection indefinitely.
 */
export async function withTimeLimit<T>(
  { timeoutMs, parent }: TimeLimit,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  parent.throwIfAborted()
  const controller = new AbortController()
  const stop = () => controller.abort(parent.reason)
  const timer = setTimeout(() => {
    controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
  }, timeoutMs)
  parent.addEventListener('abort', stop, { once: true })
  try {
    return await work(controller.signal)
  } finally {
    clearTimeout(timer)
    parent.removeEventListener('abort', stop)
  }
}
