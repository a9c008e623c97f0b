/** Registers the restarts of workers, which the first process counts. */
import type { RestartReason } from '../../workers.js'
import type { Registry } from './registry.js'

const REASONS: readonly RestartReason[] = ['died', 'hung']

/** Returns the function that counts a restart. */
export function registerRestarts(registry: Registry): (reason: RestartReason) => void {
  const restarts = registry.counter(
    'sluice_worker_restarts_total',
    'Workers restarted because they died or hung.',
    ['reason'],
  )
  for (const reason of REASONS) restarts.labels(reason)
  return (reason) => restarts.labels(reason).inc()
}
