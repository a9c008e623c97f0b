/**
 * Opens the rule store that the configuration names. A new file store begins with the example rules
 * if nothing is configured, and empty otherwise.
 */
import { join } from 'node:path'
import { parseData } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Config } from '../../config/config.js'
import { EXAMPLE_RULES } from '../../generated/example-rules.js'
import type { Log } from '../../observability/log/logger.js'
import { RELEASE } from '../../generated/release.js'
import { openFileStore } from './file/file-store.js'
import { openPostgresStore } from './postgres/postgres-store.js'
import { type Change, MAIN_ID, type RuleDocument } from './records.js'
import type { RuleStore } from './rule-store.js'

export interface RuleStoreDeps {
  readonly log: Log
  readonly clock: WallClock
  /** Whether nothing is configured, so that a new store begins with the example. */
  readonly isExample: boolean
}

const FOLDER = 'rules'
/** The version of a new store. */
const FIRST_VERSION = 1

const EXAMPLE_WHY = 'the example that a new store begins with'

/** Resolves to undefined if rules come from a file. Rejects with the reason if it cannot open. */
export async function openRuleStore(
  config: Pick<Config, 'rules' | 'database' | 'dataDir'> & Partial<Pick<Config, 'rulesHistory'>>,
  { log, clock, isExample }: RuleStoreDeps,
): Promise<RuleStore | undefined> {
  if (config.rules !== undefined) return undefined
  if (config.database !== undefined) return openPostgresStore(config.database, { log })
  const folder = join(config.dataDir, FOLDER)
  const { rulesHistory: history } = config
  const store = await openFileStore({ folder, clock, log, release: RELEASE, history })
  try {
    if (isExample) await commitExample(store)
    else await warnOfExample(store, log)
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Commits the example rules to a new store. A store with a history is left unchanged. */
async function commitExample(store: RuleStore): Promise<void> {
  // A read-only store is served without the example.
  if (store.status().isReadOnly === true || (await versionOf(store)) !== FIRST_VERSION) return
  await store.commit({
    base: FIRST_VERSION,
    by: 'sluice',
    why: EXAMPLE_WHY,
    changes: exampleChanges(),
  })
}

/** Warns if the store began with the example, and its rules were never changed since. */
async function warnOfExample(store: RuleStore, log: Log): Promise<void> {
  const [last] = await store.history({ limit: 1 })
  if (last?.why !== EXAMPLE_WHY) return
  log.warn({}, 'rules: the example rules are active; replace them with sluice rules apply')
}

async function versionOf(store: RuleStore): Promise<number | undefined> {
  const [last] = await store.history({ limit: 1 })
  return last?.version
}

interface ExampleSet {
  readonly routes: readonly unknown[]
  readonly rules: readonly RuleDocument[]
}

function exampleChanges(): readonly Change[] {
  const { routes, rules } = parseData(EXAMPLE_RULES).value as ExampleSet
  const order = rules.map(({ id }) => id)
  return [
    { kind: 'set', id: MAIN_ID, body: { routes, strictPaths: false, order } },
    ...rules.map((body) => ({ kind: 'rule', id: body.id, body }) as const),
  ]
}
