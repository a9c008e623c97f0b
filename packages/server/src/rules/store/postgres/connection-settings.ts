/** The settings of connections to Postgres: address, TLS and timeouts. */
import { userInfo } from 'node:os'
import { checkServerIdentity } from 'node:tls'
import type { ClientConfig } from 'pg'
import type { ClientTlsFiles, DatabaseConfig } from '../../../config/config.js'
import {
  type DatabaseTarget,
  describeDatabase,
  parseDatabaseUrl,
} from '../../../config/database-url.js'
import { readPem } from '../../../lib/read-pem.js'

const CONNECT_MS_MAX = 5000
/** Default timeout of one statement. */
export const QUERY_MS_MAX = 10_000
const KEEP_ALIVE_AFTER_MS = 10_000

export interface ConnectionSettings {
  /** For messages; without secrets. */
  readonly name: string
  readonly options: ClientConfig
}

/** Rejects if a TLS file cannot be read or used. Does not connect. */
export async function prepareConnection(config: DatabaseConfig): Promise<ConnectionSettings> {
  const target = parseDatabaseUrl(config.url)
  const { host, port, database, user, password } = target
  return {
    name: `postgres ${describeDatabase(target)}`,
    options: {
      host,
      port,
      database,
      user: user ?? userInfo().username,
      ...(password === undefined ? {} : { password }),
      ssl: await readDatabaseTls(target, config.tls),
      application_name: 'sluice',
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
      connectionTimeoutMillis: CONNECT_MS_MAX,
      // Not `statement_timeout`: poolers refuse connections that set it. See `limits`.
      query_timeout: QUERY_MS_MAX,
    },
  }
}

const NO_FILES = { ca: undefined, cert: undefined, key: undefined }

/** Rejects with an error that names the file that cannot be read or used. */
async function readDatabaseTls(
  { host, tls }: Pick<DatabaseTarget, 'host' | 'tls'>,
  files: ClientTlsFiles | undefined,
): Promise<Exclude<ClientConfig['ssl'], true | undefined>> {
  if (tls === 'off') return false
  const { ca, cert, key } = await readPem(files ?? NO_FILES)
  const name = files?.servername ?? host
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    rejectUnauthorized: true,
    // Undefined means that the name is accepted.
    checkServerIdentity: (_host, certificate) =>
      tls === 'verify-ca' ? undefined : checkServerIdentity(name, certificate),
  }
}
