/** The rule store that the configuration asks for; a new one in files begins with the example. */
import { join } from 'node:path'
import { readPlain } from '@sluice/core'
import type { WallClock } from '../clock.js'
import type { Config } from '../config/config.js'
import { exampleRulesFile } from '../example.js'
import { readWhole } from '../files/read-whole.js'
import type { Log } from '../log/logger.js'
import { RELEASE } from '../release.js'
import { openFileStore } from './file/file-store.js'
import { openPostgresStore } from './postgres/postgres-store.js'
import { type Change, MAIN, type RuleDocument } from './records.js'
import type { RuleStore } from './rule-store.js'

export interface RuleStoreParts {
  readonly log: Log
  readonly clock: WallClock
}

const FOLDER = 'rules'
/** What a store is at when it was made and never written to. */
const NEW = 1

/** Undefined where rules are a file of the user's own. Rejects with what keeps it from opening. */
export async function openRuleStore(
  config: Pick<Config, 'rules' | 'database' | 'dataDir'>,
  { log, clock }: RuleStoreParts,
): Promise<RuleStore | undefined> {
  if (config.rules !== undefined) return undefined
  if (config.database !== undefined) return openPostgresStore(config.database, { log })
  const folder = join(config.dataDir, FOLDER)
  const store = await openFileStore({ folder, clock, log, release: RELEASE })
  try {
    await plantExample(store)
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Whoever starts Sluice for the first time has something to look at, and to change. */
async function plantExample(store: RuleStore): Promise<void> {
  if ((await versionOf(store)) !== NEW) return
  await store.commit({
    base: NEW,
    by: 'sluice',
    why: 'the example that a new store begins with',
    changes: await exampleChanges(),
  })
}

async function versionOf(store: RuleStore): Promise<number | undefined> {
  const [last] = await store.history({ limit: 1 })
  return last?.version
}

interface ExampleSet {
  readonly routes: readonly unknown[]
  readonly rules: readonly RuleDocument[]
}

async function exampleChanges(): Promise<readonly Change[]> {
  const { text } = await readWhole(exampleRulesFile)
  const { routes, rules } = readPlain(text).value as ExampleSet
  const order = rules.map(({ id }) => id)
  return [
    { kind: 'set', id: MAIN, body: { routes, strictPaths: false, order } },
    ...rules.map((body) => ({ kind: 'rule', id: body.id, body }) as const),
  ]
}
