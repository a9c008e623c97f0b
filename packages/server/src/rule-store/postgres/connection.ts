/** How a connection to Postgres is made: address, TLS and time limits. */
import { userInfo } from 'node:os'
import { checkServerIdentity, createSecureContext } from 'node:tls'
import type { ClientConfig } from 'pg'
import type { DatabaseConfig, DatabaseTlsFiles } from '../../config/config.js'
import {
  type DatabaseTarget,
  describeDatabase,
  parseDatabaseUrl,
} from '../../config/database-url.js'
import { readWhole } from '../../files/read-whole.js'
import { messageOf } from '../../message-of.js'

const CONNECT_MS_MAX = 5000
/** Of one statement, where nothing else is said. */
export const QUERY_MS_MAX = 10_000
const KEEP_ALIVE_AFTER_MS = 10_000

export interface Connection {
  /** For people, without secrets. */
  readonly name: string
  readonly options: ClientConfig
}

/** Rejects if a file of TLS cannot be read or used. Does not connect. */
export async function prepareConnection(config: DatabaseConfig): Promise<Connection> {
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
      // Not `statement_timeout`: a pooler refuses connections that ask for it. See `limits`.
      query_timeout: QUERY_MS_MAX,
    },
  }
}

/** Rejects with a message that names what cannot be read or used. */
async function readDatabaseTls(
  { host, tls }: Pick<DatabaseTarget, 'host' | 'tls'>,
  files: DatabaseTlsFiles | undefined,
): Promise<Exclude<ClientConfig['ssl'], true | undefined>> {
  if (tls === 'off') return false
  const read = async (file: string | undefined) =>
    file === undefined ? undefined : (await readWhole(file)).text
  const [ca, cert, key] = [await read(files?.ca), await read(files?.cert), await read(files?.key)]
  try {
    createSecureContext({ ca, cert, key })
  } catch (cause) {
    const names = [files?.ca, files?.cert, files?.key].filter((name) => name !== undefined)
    const found = `${names.join(', ')}: found ${messageOf(cause)}`
    throw new Error(`${found}; accepted: PEM files that fit together`, { cause })
  }
  const name = files?.servername ?? host
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    rejectUnauthorized: true,
    // Undefined is what this function says of a good name.
    checkServerIdentity: (_host, certificate) =>
      tls === 'verify-ca' ? undefined : checkServerIdentity(name, certificate),
  }
}
