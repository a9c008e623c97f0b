/** Reads everything or the changes since a position, page by page, in one snapshot. */
import type { QueryResultRow } from 'pg'
import type { Kind, StoredRecord } from '../records.js'
import {
  CHUNK_RECORDS_MAX,
  type RecordChunk,
  DivergedError,
  type PastChange,
  type Position,
  UnavailableError,
} from '../rule-store.js'
import type { Query, Database } from './database.js'

/** The order in which kinds are read: what others refer to comes first. */
const TABLES: readonly (readonly [Kind, string])[] = [
  ['secret', 'secrets'],
  ['set', 'rule_set'],
  ['rule', 'rules'],
  ['candidate', 'candidates'],
  ['override', 'overrides'],
  ['token', 'tokens'],
  ['key', 'known_keys'],
]

const TABLE_OF = new Map<string, string>(TABLES)

export function tableOf(kind: Kind): string {
  const table = TABLE_OF.get(kind)
  if (table === undefined) throw new RangeError(`found a record of kind ${kind}`)
  return `sluice.${table}`
}

interface StateRow extends QueryResultRow {
  readonly version: string
  readonly mark: string
  readonly lineage: string
  readonly lineage_version: string
  readonly pruned_version: string
  readonly is_standby: boolean
  /** The mark of the requested version; null: there is no such version. */
  readonly since_mark: string | null
}

interface RecordRow extends QueryResultRow {
  readonly kind: Kind
  readonly id: string
  readonly body: unknown
  readonly version: string
}

interface ChangeRow extends QueryResultRow {
  readonly kind: Kind
  readonly id: string
  readonly before: unknown
  readonly after: unknown
}

export async function* readChunks(
  database: Database,
  since: Position | undefined,
): AsyncGenerator<RecordChunk, void, undefined> {
  const transaction = await database.begin('read')
  try {
    const state = await database.track(() => queryState(transaction.query, since?.version ?? 0))
    const position = positionOf(state)
    const start = since === undefined ? undefined : startOf(database.name, state, since)
    const selection = start === undefined ? everything() : changedAfter(start)
    let isFirst = true
    let pending: readonly StoredRecord[] | undefined
    // Yields one page late, since only the last chunk has the position.
    for await (const page of pagesOf<RecordRow>(database, transaction.query, selection)) {
      if (pending !== undefined) {
        yield { isWhole: start === undefined && isFirst, records: pending, position: undefined }
        isFirst = false
      }
      pending = page.map(
        ({ kind, id, body, version }) =>
          ({ kind, id, body, version: Number(version) }) as StoredRecord,
      )
    }
    yield { isWhole: start === undefined && isFirst, records: pending ?? [], position }
  } finally {
    await transaction.end()
  }
}

export async function* readChangesAfter(
  database: Database,
  version: number,
  rule: string | undefined,
): AsyncGenerator<PastChange, void, undefined> {
  if (!Number.isSafeInteger(version)) throw new RangeError(`there is no version ${version}`)
  const transaction = await database.begin('read')
  try {
    const { query } = transaction
    const { since_mark: mark } = await database.track(() => queryState(query, version))
    if (mark === null) throw new RangeError(`there is no version ${version}`)
    const select = `select kind, id, before, after from sluice.changes
      where version > $1 ${rule === undefined ? '' : 'and rule = $2'}
      order by version desc, place desc`
    const values = rule === undefined ? [version] : [version, rule]
    for await (const page of pagesOf<ChangeRow>(database, query, { select, values })) {
      for (const { kind, id, before, after } of page) yield { kind, id, before, after }
    }
  } finally {
    await transaction.end()
  }
}

export function positionOf(row: Pick<StateRow, 'version' | 'mark' | 'lineage'>): Position {
  return { version: Number(row.version), mark: row.mark, lineage: row.lineage }
}

async function queryState(query: Query, version: number): Promise<StateRow> {
  const [state] = await query<StateRow>(
    `select version, mark, lineage, lineage_version, pruned_version,
       pg_is_in_recovery() as is_standby,
       (select mark from sluice.versions where version = $1) as since_mark
     from sluice.state`,
    [version],
  )
  if (state === undefined) throw new Error('found no row in sluice.state; accepted: one')
  return state
}

/** Returns the version to continue from; undefined: everything has to be read. */
function startOf(name: string, state: StateRow, since: Position): number | undefined {
  const store = positionOf(state)
  if (since.lineage !== store.lineage) {
    const begun = Number(state.lineage_version)
    if (begun > 1 && since.version < begun) return undefined
    const found = `its history is ${store.lineage}, and ${since.lineage} was followed`
    throw new DivergedError(
      store,
      `${name}: the rule store is another one than at version ${since.version}: ${found}`,
    )
  }
  if (since.mark === state.since_mark) {
    return since.version < Number(state.pruned_version) ? undefined : since.version
  }
  if (since.version <= store.version) {
    const found = `has another version ${since.version} than the one that was followed`
    throw new DivergedError(store, `${name}: the rule store ${found}`)
  }
  // A standby will catch up.
  if (state.is_standby) {
    const found = `a standby at version ${store.version}, behind ${since.version}`
    throw new UnavailableError(`${name}: found ${found}`)
  }
  const found = `went back to version ${store.version} from ${since.version}`
  throw new DivergedError(store, `${name}: the rule store ${found}`)
}

interface Selection {
  readonly select: string
  readonly values: readonly unknown[]
}

function everything(): Selection {
  const selects = TABLES.map(
    ([kind, table]) => `select '${kind}' as kind, id, body, version from sluice.${table}`,
  )
  return { select: selects.join(' union all '), values: [] }
}

function changedAfter(version: number): Selection {
  const changed = TABLES.map(
    ([kind, table]) =>
      `select '${kind}' as kind, id, body, version from sluice.${table} where version > $1`,
  )
  const removed = 'select kind, id, null::json, version from sluice.removed where version > $1'
  return { select: [...changed, removed].join(' union all '), values: [version] }
}

/** Yields pages that are not empty, and fetches the next one while the caller uses this one. */
async function* pagesOf<Row extends QueryResultRow>(
  database: Database,
  query: Query,
  { select, values }: Selection,
): AsyncGenerator<readonly Row[], void, undefined> {
  const fetch = () => {
    const page = database.track(() => query<Row>(`fetch ${CHUNK_RECORDS_MAX} from pages`))
    // Handled when it is awaited; without this it would be an unhandled rejection until then.
    page.catch(() => undefined)
    return page
  }
  await database.track(() => query(`declare pages no scroll cursor for ${select}`, values))
  let next = fetch()
  try {
    for (;;) {
      const page = await next
      if (page.length === 0) return
      if (page.length < CHUNK_RECORDS_MAX) {
        yield page
        return
      }
      next = fetch()
      yield page
    }
  } finally {
    // After an early stop the result does not matter, but the connection has to be free.
    await next.catch(() => undefined)
  }
}
