/** Workers that were replaced. With several workers the first process counts them. */
import type { RestartReason } from '../../workers.js'
import type { Registry } from './registry.js'

const REASONS: readonly RestartReason[] = ['died', 'hung']

/** Returns what counts one. */
export function registerRestarts(registry: Registry): (reason: RestartReason) => void {
  const restarts = registry.counter(
    'sluice_worker_restarts_total',
    'Workers that were replaced because they died or hung.',
    ['reason'],
  )
  for (const reason of REASONS) restarts.labels(reason)
  return (reason) => restarts.labels(reason).inc()
}
