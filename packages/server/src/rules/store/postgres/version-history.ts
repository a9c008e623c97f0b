/** Queries beside the present records: history, keys and nodes. */
import type { QueryResultRow } from 'pg'
import type { Kind, StoredKey } from '../records.js'
import {
  CHANGES_LISTED_MAX,
  type HistoryQuery,
  type KeysQuery,
  type LiveNode,
  type NodeReport,
  type PastChange,
  type PastVersion,
} from '../rule-store.js'
import type { Database } from './database.js'

const PAGE_MAX = 1000
const NODES_MAX = 1000
/** Nodes that did not report for longer are not listed, and are removed after an hour. */
const NODE_LIVE = "interval '60 seconds'"
const NODE_KEPT = "interval '1 hour'"

interface VersionRow extends QueryResultRow {
  readonly version: string
  readonly at: Date
  readonly by: string
  readonly why: string | null
  readonly change_count: number
  readonly kind: Kind | null
  readonly id: string
  readonly before: unknown
  readonly after: unknown
}

export async function readHistory(
  database: Database,
  { rule, before, limit }: HistoryQuery,
): Promise<readonly PastVersion[]> {
  const rows = await database.query<VersionRow>(
    `select v.version, v.at, v.by, v.why, c.kind, c.id, c.before, c.after,
       case when $1::text is null then v.change_count else (
         select count(*)::int from sluice.changes where version = v.version and rule = $1
       ) end as change_count
     from (
       select * from sluice.versions
       where ($2::bigint is null or version < $2) and ($1::text is null or version in (
         select version from sluice.changes where rule = $1
       ))
       order by version desc limit $3
     ) as v
     left join lateral (
       select * from sluice.changes
       where version = v.version and ($1::text is null or rule = $1)
       order by place limit ${CHANGES_LISTED_MAX}
     ) as c on true
     order by v.version desc, c.place`,
    [rule ?? null, before ?? null, Math.min(limit, PAGE_MAX)],
  )
  const versions = new Map<string, PastVersion & { readonly changes: PastChange[] }>()
  for (const row of rows) {
    const version = versions.get(row.version) ?? versionOf(row)
    versions.set(row.version, version)
    const { kind, id, before: was, after } = row
    if (kind !== null) version.changes.push({ kind, id, before: was, after })
  }
  return [...versions.values()]
}

function versionOf(row: VersionRow): PastVersion & { readonly changes: PastChange[] } {
  return {
    version: Number(row.version),
    at: row.at.toISOString(),
    by: row.by,
    why: row.why ?? undefined,
    changeCount: row.change_count,
    changes: [],
  }
}

interface KeyRow extends QueryResultRow {
  readonly id: string
  readonly body: StoredKey['body']
  readonly version: string
}

const keyOf = ({ id, body, version }: KeyRow): StoredKey => ({
  kind: 'key',
  id,
  body,
  version: Number(version),
})

export async function readKeys(
  database: Database,
  { after, user, limit }: KeysQuery,
): Promise<readonly StoredKey[]> {
  const ofUser = user === undefined ? '' : 'and "user" = $3'
  const rows = await database.query<KeyRow>(
    `select id, body, version from sluice.known_keys where id > $1 ${ofUser} order by id limit $2`,
    [after ?? '', Math.min(limit, PAGE_MAX), ...(user === undefined ? [] : [user])],
  )
  return rows.map(keyOf)
}

export async function readKey(database: Database, id: string): Promise<StoredKey | undefined> {
  // Postgres rejects such text, and no record has such an id.
  if (id.includes('\0')) return undefined
  const rows = await database.query<KeyRow>(
    'select id, body, version from sluice.known_keys where id = $1',
    [id],
  )
  return rows.map(keyOf)[0]
}

export async function reportNode(database: Database, node: NodeReport): Promise<void> {
  await database.query(
    `with gone as (
       delete from sluice.nodes where seen_at < clock_timestamp() - ${NODE_KEPT} and id <> $1
     )
     insert into sluice.nodes (id, body, seen_at) values ($1, $2, clock_timestamp())
     on conflict (id) do update set body = excluded.body, seen_at = excluded.seen_at`,
    [node.id, JSON.stringify(node)],
  )
}

export async function readNodes(database: Database): Promise<readonly LiveNode[]> {
  const rows = await database.query<{ body: NodeReport; ms: number }>(
    `select body, greatest(0, extract(epoch from clock_timestamp() - seen_at) * 1000)::float8 as ms
     from sluice.nodes where seen_at > clock_timestamp() - ${NODE_LIVE}
     order by id limit ${NODES_MAX}`,
  )
  return rows.map(({ body, ms }) => ({ ...body, seenMsAgo: Math.round(ms) }))
}
