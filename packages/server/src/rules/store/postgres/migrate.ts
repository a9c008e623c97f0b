/**
 * Migrates a database to the schema of this release. Migrations are the numbered SQL files of
 * `migrations`, run once each and in order; a table holds which ran, and their checksums.
 *
 * All of it is one transaction under a lock: of two nodes that start at once, one migrates and the
 * other finds it done. Without pending migrations, the role only needs to read.
 */
import { createHash } from 'node:crypto'
import { MIGRATION_TEXTS } from '../../../generated/migration-texts.js'
import { UnavailableError } from '../rule-store.js'
import type { Query, Database } from './database.js'
import { sqlStateOf } from './postgres-errors.js'

/** Key of the advisory lock: any number, the same for all nodes. */
const LOCK = 7_306_895_128_412
const INSUFFICIENT_PRIVILEGE = '42501'

export interface Migration {
  readonly number: number
  readonly file: string
  readonly text: string
  readonly checksum: string
}

interface AppliedMigration {
  readonly number: number
  readonly file: string
  readonly checksum: string
}

/** The migrations of this release, in order. */
export const MIGRATIONS: readonly Migration[] = MIGRATION_TEXTS.map(({ file, text }) => ({
  number: Number(file.slice(0, 4)),
  file,
  text,
  checksum: createHash('sha256').update(text).digest('hex'),
}))

/** Rejects with an `UnavailableError` if it cannot or must not migrate: see `missingOf`. */
export async function migrate(
  database: Database,
  migrations: readonly Migration[],
): Promise<readonly string[]> {
  const applied = await readApplied((text) => database.query(text))
  if (missingOf(database.name, migrations, applied).length === 0) return []
  try {
    return await database.transact('write', async (query) => {
      await query('select pg_advisory_xact_lock($1)', [LOCK])
      const missing = missingOf(database.name, migrations, await readApplied(query))
      if (missing.length > 0 && missing.length === migrations.length) await makeSchema(query)
      for (const { number, file, text, checksum } of missing) {
        await query(text)
        const values = [number, file, checksum]
        await query(
          'insert into sluice.migrations (number, file, checksum) values ($1, $2, $3)',
          values,
        )
      }
      return missing.map(({ file }) => file)
    })
  } catch (error) {
    if (!(error instanceof Error) || sqlStateOf(error.cause) !== INSUFFICIENT_PRIVILEGE) throw error
    const accepted = 'a role that may create the schema sluice, once'
    throw new UnavailableError(`${error.message}; accepted: ${accepted}`, { cause: error.cause })
  }
}

async function makeSchema(query: Query): Promise<void> {
  await query('create schema if not exists sluice')
  await query(`create table if not exists sluice.migrations (
    number integer primary key,
    file text not null,
    checksum text not null,
    at timestamptz not null default clock_timestamp()
  )`)
}

async function readApplied(query: Query): Promise<readonly AppliedMigration[]> {
  // Queries the system catalogue: names that the session has cached may be older than the lock.
  const found = await query(
    "select from pg_catalog.pg_tables where schemaname = 'sluice' and tablename = 'migrations'",
  )
  if (found.length === 0) return []
  return query<AppliedMigration & Record<string, unknown>>(
    'select number, file, checksum from sluice.migrations order by number',
  )
}

/** Returns the pending migrations. Throws if other files than these were applied. */
function missingOf(
  name: string,
  migrations: readonly Migration[],
  applied: readonly AppliedMigration[],
): readonly Migration[] {
  const newest = migrations.at(-1)?.number ?? 0
  for (const { number, file, checksum } of applied) {
    const own = migrations.find((migration) => migration.number === number)
    if (own === undefined) {
      const found = `found migration ${file}, made by a newer release`
      const accepted = `migrations up to ${newest}; start the release that made it, or a newer one`
      throw new UnavailableError(`${name}: ${found}; accepted: ${accepted}`)
    }
    if (own.checksum === checksum) continue
    const found = `found migration ${file} with checksum ${checksum.slice(0, 12)}`
    const accepted = `${own.checksum.slice(0, 12)}, that of ${own.file} in this release`
    throw new UnavailableError(`${name}: ${found}; accepted: ${accepted}`)
  }
  const done = new Set(applied.map(({ number }) => number))
  return migrations.filter(({ number }) => !done.has(number))
}
