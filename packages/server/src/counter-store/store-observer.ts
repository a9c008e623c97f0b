/** Turns events of the Redis store into metrics and log lines. */
import { show } from '@sluice/core'
import type { StoreObserver } from '@sluice/limiter/redis'
import type { WallClock } from '../lib/wall-clock.js'
import type { Log } from '../observability/log/logger.js'
import { createThrottle } from '../observability/log/throttle.js'
import { boundLabels } from '../observability/metrics/bounded-labels.js'
import type { ReadableHistogram } from '../observability/metrics/histogram.js'
import type { Registry } from '../observability/metrics/registry.js'
import { STORES_MAX } from './store-metrics.js'

export interface StoreDeps {
  readonly log: Log
  readonly clock: WallClock
  readonly registry: Registry
}

/** Buckets from 100 us, less than a round trip on one machine, to 1 s. */
const SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
]
/** The most error codes with a series of their own; Redis has fewer. */
const CODES_MAX = 64
const PROBLEM_SHOWN_MAX = 1000
/** Expected with a new script, moving slots, a busy machine or a lost connection: not logged. */
const ROUTINE: ReadonlySet<string> = new Set([
  'NOSCRIPT',
  'MOVED',
  'ASK',
  'TRYAGAIN',
  'breaker',
  'connection',
  'deadline',
  'late',
])

/** An observer whose measurements others can read. */
export interface CountingObserver extends StoreObserver {
  readonly times: ReadableHistogram
  /** Starts the series of a node at 0, because an increase needs a first sample. */
  register(store: string): void
}

export function createStoreObserver({ log, clock, registry }: StoreDeps): CountingObserver {
  const throttle = createThrottle(clock)
  const seconds = registry.histogram(
    'sluice_store_seconds',
    'Time the store took to answer a batch, in seconds.',
    SECONDS,
  )
  const errors = boundLabels(
    registry.counter('sluice_store_errors_total', 'Store operations that failed, by error code.', [
      'code',
    ]),
    CODES_MAX,
  )
  const opened = boundLabels(
    registry.counter(
      'sluice_breaker_opened_total',
      'How often the circuit breaker of a store node opened.',
      ['store'],
    ),
    STORES_MAX,
  )
  const held = registry
    .counter(
      'sluice_held_refusals_total',
      'Calls refused only because other calls held units until the deadline.',
    )
    .labels()
  return {
    times: seconds,
    register: (store) => opened.get(store).inc(0),
    batch: (_address, took) => seconds.observe(took),
    error(code, store) {
      errors.get(code).inc()
      const passed = ROUTINE.has(code) ? undefined : throttle.pass(`error ${code}`)
      if (passed !== undefined) log.warn({ code, store, ...passed }, 'store error')
    },
    held: () => held.inc(),
    problem(message) {
      const passed = throttle.pass(message)
      if (passed === undefined) return
      log.warn({ problem: show(message, PROBLEM_SHOWN_MAX), ...passed }, 'store problem')
    },
    breakerOpened(store) {
      opened.get(store).inc()
      const passed = throttle.pass(`opened ${store}`)
      if (passed !== undefined) log.warn({ store, ...passed }, 'breaker opened')
    },
    breakerClosed(store) {
      const passed = throttle.pass(`closed ${store}`)
      if (passed !== undefined) log.info({ store, ...passed }, 'breaker closed')
    },
  }
}
