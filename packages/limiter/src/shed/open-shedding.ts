/** Opens the shedding of a limiter that knows how busy its process is. */
import type { Snapshot } from '@sluice/core'
import { type Clock, monotonicMs as systemMonotonicMs } from '../clock.js'
import { readDependency, readLoad } from '../limiter-options.js'
import type { LimiterOptions } from '../limiter-types.js'
import { systemScheduler } from '../periodic.js'
import { LoadShedding } from './load-shedding.js'

/** Undefined without `load`. */
export function openShedding(
  { load, scheduler, monotonicMs }: LimiterOptions,
  clock: Clock,
  snapshot: Snapshot,
): LoadShedding | undefined {
  if (load === undefined) return undefined
  const deps = {
    load: readLoad(load),
    scheduler: readDependency('scheduler', scheduler ?? systemScheduler, ['after']),
    monotonicMs: monotonicMs ?? systemMonotonicMs,
    wallMs: () => clock.now() / 1000,
  }
  return new LoadShedding(deps, snapshot)
}
