import { performance } from 'node:perf_hooks'

/** Milliseconds that never go back. Their zero is the start of the process. */
export function monotonicMs(): number {
  return performance.now()
}
