/** What a store outside this process reports: for metrics, the log and the nodes page. */
import { show } from '@sluice/core'
import type { StoreObserver } from '@sluice/limiter/redis'
import { BatchLatency } from './batch-latency.js'
import { ConnectionFailureCounts } from './connection-failure-counts.js'
import { type CountingObserver, createStoreObserver, type StoreDeps } from './store-observer.js'

const PROBLEM_SHOWN_MAX = 250

export interface StoreEvents {
  /** To be given to the store. */
  readonly observer: StoreObserver
  readonly counted: CountingObserver
  readonly batchLatency: BatchLatency
  readonly failures: ConnectionFailureCounts
  /** The last problem that the store reported. */
  problem(): string
  /** Sets the listener that is called when the breaker of a node opens. */
  onBreakerOpened(listener: (store: string) => void): void
}

export function observeStore(deps: StoreDeps, deadlineMs: number): StoreEvents {
  const counted = createStoreObserver(deps)
  const batchLatency = new BatchLatency(deadlineMs)
  const failures = new ConnectionFailureCounts()
  const latest = { problem: 'it does not answer', breakerOpened: (_store: string): void => {} }
  return {
    observer: {
      ...counted,
      batch(address, seconds, takes) {
        counted.batch(address, seconds, takes)
        batchLatency.record(address, seconds)
      },
      error(code, address) {
        counted.error(code, address)
        if (code === 'connection') failures.record(address)
      },
      problem(message) {
        counted.problem(message)
        latest.problem = show(message, PROBLEM_SHOWN_MAX)
      },
      breakerOpened(address) {
        counted.breakerOpened(address)
        latest.breakerOpened(address)
      },
    },
    counted,
    batchLatency,
    failures,
    problem: () => latest.problem,
    onBreakerOpened: (listener) => void (latest.breakerOpened = listener),
  }
}
