/** `database`: the Postgres that holds rules, where nodes share them. */
import { resolve } from 'node:path'
import { complain, fieldOf, type MapNode, type Spot } from '@sluice/core/reading'
import { readClientTls } from './client-tls.js'
import type { ClientTlsFiles, DatabaseConfig } from './config.js'
import { type DatabaseTarget, parseDatabaseUrl, readDatabaseUrl } from './database-url.js'
import type { Overrides } from './environment.js'
import { readGiven, readSection, type Setting, settle } from './fields.js'

const FILES = ['ca', 'cert', 'key'] as const
/** What the same file is called in a URL. */
const PARAMETERS = { ca: 'sslrootcert', cert: 'sslcert', key: 'sslkey' } as const

export interface ParsedDatabase {
  /** Undefined: rules are files. */
  readonly config: DatabaseConfig | undefined
  readonly url: Setting<string | undefined>
}

export function readDatabase(
  root: Spot<MapNode>,
  { folder, overrides }: { readonly folder: string; readonly overrides: Overrides },
): ParsedDatabase {
  const map = readSection(root, 'database', ['url', 'tls'])
  const given = readGiven(map, 'url', readDatabaseUrl)
  const url = settle<string | undefined>(overrides.databaseUrl, given, undefined)
  const tls = readGiven(
    map,
    'tls',
    (spot) => readClientTls(spot, { folder, peer: 'Postgres' })?.files,
  )
  const { value } = url
  if (value === undefined) {
    if (url.isRead) requireUrl(root, map)
    return { config: undefined, url }
  }
  const target = parseDatabaseUrl(value)
  if (tls !== undefined && target.tls === 'off') refuseTls(tls.spot)
  // Variables are set where the server is started, so their files are looked for there.
  const place = overrides.databaseUrl === undefined ? folder : '.'
  const files = mergeFiles(target, place, tls?.value)
  if (url.spot !== undefined) checkFiles(target, files, { url: url.spot, tls: tls?.spot })
  const hasTls = Object.values(files).some((file) => file !== undefined)
  return { config: { url: value, tls: hasTls ? files : undefined }, url }
}

function mergeFiles(
  { files }: DatabaseTarget,
  folder: string,
  tls: ClientTlsFiles | undefined,
): ClientTlsFiles {
  const fileOf = (name: (typeof FILES)[number]) =>
    tls?.[name] ?? (files[name] === undefined ? undefined : resolve(folder, files[name]))
  return {
    ca: fileOf('ca'),
    cert: fileOf('cert'),
    key: fileOf('key'),
    servername: tls?.servername,
  }
}

/** Each file once, and of a certificate and its key both or neither. */
function checkFiles(
  target: DatabaseTarget,
  files: ClientTlsFiles,
  { url, tls }: { readonly url: Spot; readonly tls: Spot | undefined },
): void {
  for (const name of FILES) {
    if (tls?.node.kind !== 'map' || !tls.node.entries.has(name)) continue
    if (target.files[name] === undefined) continue
    const found = `beside ${PARAMETERS[name]} in the URL`
    complain(tls, 'bad-value', { field: `${tls.field}.${name}`, found, accepted: 'one of the two' })
  }
  const isAlone = (files.cert === undefined) !== (files.key === undefined)
  if (!isAlone || hasBoth(tls)) return
  const [given, missing] =
    files.cert === undefined ? (['key', 'cert'] as const) : (['cert', 'key'] as const)
  if (tls === undefined) {
    const found = `with ${PARAMETERS[given]} and no ${PARAMETERS[missing]}`
    const accepted = 'both or neither: a certificate needs its key'
    return complain(url, 'bad-value', { found, accepted })
  }
  const accepted =
    `the name of a PEM file, or ${PARAMETERS[missing]} in the URL; ` +
    'a certificate needs both cert and key'
  complain(tls, 'missing-field', { field: `${tls.field}.${missing}`, found: 'nothing', accepted })
}

/** Where one of two that were written could not be read, that was told of. */
function hasBoth(tls: Spot | undefined): boolean {
  return tls?.node.kind === 'map' && tls.node.entries.has('cert') && tls.node.entries.has('key')
}

/** Settings of a database that nobody names would quietly mean rules for each node. */
function requireUrl(root: Spot<MapNode>, map: Spot<MapNode>): void {
  const spot = fieldOf(root, 'database')
  if (spot === undefined || map.node.entries.size === 0) return
  complain(spot, 'missing-field', {
    field: 'database.url',
    found: 'nothing',
    accepted:
      'where Postgres is, here or in SLUICE_DATABASE_URL; without it rules are files of this ' +
      'node alone: then leave database out',
  })
}

function refuseTls(spot: Spot): void {
  complain(spot, 'bad-value', {
    found: 'beside a URL without TLS',
    accepted: 'a URL with sslmode=verify-full or verify-ca, or no tls',
  })
}
