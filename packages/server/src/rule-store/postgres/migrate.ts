/**
 * Brings a database to what this release works with. Migrations are SQL files with a number in
 * front, run once each and in their order; a table says which ran, and what they said.
 *
 * All of it is one transaction under a lock: of two nodes that start at once one migrates and the
 * other finds it done. Where there is nothing to do, nothing but reading is asked of the role.
 */
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { readWhole } from '../../files/read-whole.js'
import { UnavailableError } from '../rule-store.js'
import type { Ask, Database } from './database.js'
import { sqlStateOf } from './failure.js'

/** Beside `src` and `dist`, so that both find it. */
const FOLDER = fileURLToPath(new URL('../../../migrations/', import.meta.url))
const FILE = /^(\d{4})-[a-z0-9-]+\.sql$/
/** Any number, the same for all nodes: what the lock is known by in this database. */
const LOCK = 7_306_895_128_412
const INSUFFICIENT_PRIVILEGE = '42501'

export interface Migration {
  readonly number: number
  readonly file: string
  readonly text: string
  readonly checksum: string
}

interface Applied {
  readonly number: number
  readonly file: string
  readonly checksum: string
}

export async function readMigrations(folder = FOLDER): Promise<readonly Migration[]> {
  const files = (await readdir(folder)).filter((file) => FILE.test(file)).toSorted()
  return Promise.all(
    files.map(async (file) => {
      const { text } = await readWhole(`${folder}/${file}`)
      // Whatever a checkout made of its line ends.
      const plain = text.replaceAll('\r\n', '\n')
      const checksum = createHash('sha256').update(plain).digest('hex')
      return { number: Number(file.slice(0, 4)), file, text: plain, checksum }
    }),
  )
}

/** Rejects with an `UnavailableError` if it cannot, or must not: see `missingOf`. */
export async function migrate(
  database: Database,
  migrations: readonly Migration[],
): Promise<readonly string[]> {
  const applied = await readApplied((text) => database.ask(text))
  if (missingOf(database.name, migrations, applied).length === 0) return []
  try {
    return await database.transact('write', async (ask) => {
      await ask('select pg_advisory_xact_lock($1)', [LOCK])
      const missing = missingOf(database.name, migrations, await readApplied(ask))
      if (missing.length > 0 && missing.length === migrations.length) await makeSchema(ask)
      for (const { number, file, text, checksum } of missing) {
        await ask(text)
        const values = [number, file, checksum]
        await ask(
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

async function makeSchema(ask: Ask): Promise<void> {
  await ask('create schema if not exists sluice')
  await ask(`create table if not exists sluice.migrations (
    number integer primary key,
    file text not null,
    checksum text not null,
    at timestamptz not null default clock_timestamp()
  )`)
}

async function readApplied(ask: Ask): Promise<readonly Applied[]> {
  // Asked of the catalogue itself: what a session remembers of names may be older than the lock.
  const found = await ask(
    "select from pg_catalog.pg_tables where schemaname = 'sluice' and tablename = 'migrations'",
  )
  if (found.length === 0) return []
  return ask<Applied & Record<string, unknown>>(
    'select number, file, checksum from sluice.migrations order by number',
  )
}

/** Those that are still to run. Throws where the database was made by other files than these. */
function missingOf(
  name: string,
  migrations: readonly Migration[],
  applied: readonly Applied[],
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
