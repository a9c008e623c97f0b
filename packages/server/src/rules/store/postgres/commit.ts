/** Commits changes and adoptions, and finds out whether a commit was made if its reply was lost. */
import type { QueryResultRow } from 'pg'
import { bodyText, checkCommit, checkMeta } from '../check-commit.js'
import type { Change, Kind } from '../records.js'
import { type Commit, ConflictError, type Position, UnavailableError } from '../rule-store.js'
import type { Query, Database } from './database.js'
import { describeFailure, isStatementError } from './postgres-errors.js'
import { pause } from './intervals.js'
import { positionOf, tableOf } from './read.js'

/** How long, and how often, to query Postgres whether a commit was made. */
const POLL_MS_MAX = 5000
const POLL_EVERY_MS = 250

interface PositionRow extends QueryResultRow {
  readonly version: string
  readonly mark: string
  readonly lineage: string
}

export async function commitChanges(database: Database, commit: Commit): Promise<Position> {
  checkCommit(commit)
  const batches = batchesOf(commit.changes)
  return change(database, commit, async (query) => {
    const [held] = await query<{ version: string }>('select sluice.hold() as version')
    const version = Number(held?.version)
    if (version !== commit.base) throw new ConflictError(version)
    await query('select sluice.current_version()')
    for (const batch of batches) await writeBatch(query, batch)
  })
}

export async function adoptStore(
  database: Database,
  above: number,
  meta: Pick<Commit, 'by' | 'why'>,
): Promise<Position> {
  checkMeta(meta.by, meta.why)
  if (!Number.isSafeInteger(above + 1) || above < 0) {
    throw new RangeError(`found version ${above}; accepted: a whole number from 0`)
  }
  return change(database, meta, async (query) => {
    await query('select sluice.adopt($1)', [above])
  })
}

/** Runs one transaction, whose version is known before it commits. */
async function change(
  database: Database,
  { by, why }: Pick<Commit, 'by' | 'why'>,
  work: (query: Query) => Promise<void>,
): Promise<Position> {
  const transaction = await database.begin('write')
  try {
    const position = await database.track(async () => {
      const { query } = transaction
      await query("select set_config('sluice.by', $1, true), set_config('sluice.why', $2, true)", [
        by,
        why ?? '',
      ])
      await work(query)
      const [row] = await query<PositionRow>('select version, mark, lineage from sluice.state')
      if (row === undefined) throw new Error('found no row in sluice.state; accepted: one')
      return positionOf(row)
    })
    await transaction
      .commit()
      .catch((error: unknown) => resolveUncertainCommit(database, position, error))
    return position
  } finally {
    await transaction.end()
  }
}

/** Resolves if the version was made although the reply to `commit` was lost. */
async function resolveUncertainCommit(
  database: Database,
  position: Position,
  error: unknown,
): Promise<void> {
  if (isStatementError(error)) throw describeFailure(database.name, error)
  const late = new AbortController()
  const isMade = await Promise.race([
    pollForVersion(database, position, late.signal),
    pause(POLL_MS_MAX, late.signal),
  ])
  late.abort()
  if (isMade !== true) throw describeFailure(database.name, error, isMade === undefined)
}

async function pollForVersion(
  database: Database,
  position: Position,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  while (!signal.aborted) {
    const isMade = await findVersion(database, position)
    if (isMade !== undefined) return isMade
    await pause(POLL_EVERY_MS, signal)
  }
  return undefined
}

/** Resolves to undefined if Postgres does not answer, or the transaction is still running. */
async function findVersion(
  database: Database,
  { version, mark }: Position,
): Promise<boolean | undefined> {
  try {
    return await database.transact('write', async (query) => {
      // Every change locks the state, so none is in progress once it is locked here.
      await query("set local lock_timeout = '1s'")
      await query('select sluice.hold()')
      const values = [version, mark]
      const rows = await query(
        'select from sluice.versions where version = $1 and mark = $2',
        values,
      )
      return rows.length > 0
    })
  } catch (error) {
    if (error instanceof UnavailableError) return undefined
    throw error
  }
}

interface RecordBatch {
  readonly kind: Kind
  readonly ids: string[]
  /** Null: removed. */
  readonly bodies: string[] | null
}

/** Groups changes by statement: records of one kind that are written, or removed. */
function batchesOf(changes: readonly Change[]): readonly RecordBatch[] {
  const batches = new Map<string, RecordBatch>()
  for (const each of changes) {
    const isRemoved = each.body === null
    const name = `${each.kind} ${isRemoved}`
    const batch = batches.get(name) ?? { kind: each.kind, ids: [], bodies: isRemoved ? null : [] }
    batches.set(name, batch)
    batch.ids.push(each.id)
    batch.bodies?.push(bodyText(each))
  }
  return [...batches.values()]
}

async function writeBatch(query: Query, { kind, ids, bodies }: RecordBatch): Promise<void> {
  const table = tableOf(kind)
  if (bodies === null) {
    await query(`delete from ${table} where id = any($1::text[])`, [ids])
    await query('select sluice.note_absent($1, $2::text[])', [kind, ids])
    return
  }
  await query(
    `insert into ${table} (id, body)
     select id, body::json from unnest($1::text[], $2::text[]) as given (id, body)
     on conflict (id) do update set body = excluded.body`,
    [ids, bodies],
  )
}
