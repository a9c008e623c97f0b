/** Parses `database`: the Postgres of a rule store that nodes share. */
import { resolve } from 'node:path'
import { reportAt, fieldOf, type MapNode, type Located } from '@sluice/core/config-reader'
import { readClientTls } from './client-tls.js'
import type { ClientTlsFiles, DatabaseConfig } from './config.js'
import { type DatabaseTarget, parseDatabaseUrl, readDatabaseUrl } from './database-url.js'
import type { Overrides } from './environment.js'
import { readExplicit, readSection, type Setting, resolveSetting } from './fields.js'

const FILES = ['ca', 'cert', 'key'] as const
/** The name of the same file in a URL. */
const PARAMETERS = { ca: 'sslrootcert', cert: 'sslcert', key: 'sslkey' } as const

export interface ParsedDatabase {
  /** Undefined: rules are files. */
  readonly config: DatabaseConfig | undefined
  readonly url: Setting<string | undefined>
}

export function readDatabase(
  root: Located<MapNode>,
  { folder, overrides }: { readonly folder: string; readonly overrides: Overrides },
): ParsedDatabase {
  const map = readSection(root, 'database', ['url', 'tls'])
  const given = readExplicit(map, 'url', readDatabaseUrl)
  const url = resolveSetting<string | undefined>(overrides.databaseUrl, given, undefined)
  const tls = readExplicit(
    map,
    'tls',
    (located) => readClientTls(located, { folder, peer: 'Postgres' })?.files,
  )
  const { value } = url
  if (value === undefined) {
    if (url.isRead) requireUrl(root, map)
    return { config: undefined, url }
  }
  const target = parseDatabaseUrl(value)
  if (tls !== undefined && target.tls === 'off') refuseTls(tls.located)
  // File names in variables are relative to the working directory of the server.
  const place = overrides.databaseUrl === undefined ? folder : '.'
  const files = mergeFiles(target, place, tls?.value)
  if (url.located !== undefined) checkFiles(target, files, { url: url.located, tls: tls?.located })
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

/** Each file is named once, and certificate and key both or neither. */
function checkFiles(
  target: DatabaseTarget,
  files: ClientTlsFiles,
  { url, tls }: { readonly url: Located; readonly tls: Located | undefined },
): void {
  for (const name of FILES) {
    if (tls?.node.kind !== 'map' || !tls.node.entries.has(name)) continue
    if (target.files[name] === undefined) continue
    const found = `beside ${PARAMETERS[name]} in the URL`
    reportAt(tls, 'bad-value', { field: `${tls.field}.${name}`, found, accepted: 'one of the two' })
  }
  const isAlone = (files.cert === undefined) !== (files.key === undefined)
  if (!isAlone || hasBoth(tls)) return
  const [given, missing] =
    files.cert === undefined ? (['key', 'cert'] as const) : (['cert', 'key'] as const)
  if (tls === undefined) {
    const found = `with ${PARAMETERS[given]} and no ${PARAMETERS[missing]}`
    const accepted = 'both or neither: a certificate needs its key'
    return reportAt(url, 'bad-value', { found, accepted })
  }
  const accepted =
    `the name of a PEM file, or ${PARAMETERS[missing]} in the URL; ` +
    'a certificate needs both cert and key'
  reportAt(tls, 'missing-field', { field: `${tls.field}.${missing}`, found: 'nothing', accepted })
}

/** If one of two values is invalid, that was already reported. */
function hasBoth(tls: Located | undefined): boolean {
  return tls?.node.kind === 'map' && tls.node.entries.has('cert') && tls.node.entries.has('key')
}

/** Settings of a database without its URL would silently mean separate rules for each node. */
function requireUrl(root: Located<MapNode>, map: Located<MapNode>): void {
  const located = fieldOf(root, 'database')
  if (located === undefined || map.node.entries.size === 0) return
  reportAt(located, 'missing-field', {
    field: 'database.url',
    found: 'nothing',
    accepted:
      'where Postgres is, here or in SLUICE_DATABASE_URL; without it rules are files of this ' +
      'node alone: then leave database out',
  })
}

function refuseTls(located: Located): void {
  reportAt(located, 'bad-value', {
    found: 'beside a URL without TLS',
    accepted: 'a URL with sslmode=verify-full or verify-ca, or no tls',
  })
}
