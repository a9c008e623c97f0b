/** Rule stores on a real Postgres, for tests. */
import {
  createMemoryLog,
  type MemoryLog,
} from '../../../observability/log/memory-log.test-helper.js'
import type { RuleStore } from '../rule-store.js'
import type { Intervals } from './intervals.js'
import { openPostgresStore, type PostgresStoreOptions } from './postgres-store.js'

/** Of a server, on a machine that is busy with other tests. */
export const START_MS_MAX = 60_000

/** Short intervals, so that tests do not wait for rare events. */
export const QUICK: Partial<Intervals> = {
  heartbeatMs: 100,
  heartbeatWithinMs: 500,
  probeWithinMs: 2000,
  probeAgainLeastMs: 200,
  pollMs: 200,
  pollAloneMs: 100,
  pollWithinMs: 500,
  retryLeastMs: 20,
  retryMostMs: 200,
}

/** The same where a machine that is busy for a moment must not be taken for a failure. */
export const QUICK_AND_PATIENT: Partial<Intervals> = {
  ...QUICK,
  heartbeatWithinMs: 10_000,
  pollWithinMs: 10_000,
}

export interface OpenedStore {
  readonly store: RuleStore
  readonly lines: MemoryLog['lines']
}

export async function openStore(
  url: string,
  options: Partial<PostgresStoreOptions> = {},
): Promise<OpenedStore> {
  const { log, lines } = createMemoryLog('debug')
  const store = await openPostgresStore({ url, tls: undefined }, { log, ...options })
  return { store, lines }
}
