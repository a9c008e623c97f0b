/** Parses `api` and `admin`: their listeners, and the tokens that they require. */
import { type MapNode, readOptional, type Located } from '@sluice/core/config-reader'
import type { AdminConfig, ApiConfig, ListenAddress } from './config.js'
import type { Overrides } from './environment.js'
import {
  type ExplicitValue,
  readExplicit,
  readSection,
  type Setting,
  resolveSetting,
} from './fields.js'
import { readListen } from './listen.js'
import { type FileAccess, readTokenFile } from './secrets.js'
import { readStatus, readTls } from './values.js'

const API_LISTEN: ListenAddress = { host: '127.0.0.1', port: 8081 }
const ADMIN_LISTEN: ListenAddress = { host: '127.0.0.1', port: 9090 }
const REFUSED_STATUSES = [429, 403] as const

/** The files that a section may read, and the variables that override it. */
export interface ConfigSources extends FileAccess {
  readonly overrides: Overrides
}

export interface ListenerSettings<T> {
  readonly config: T
  readonly listen: Setting<ListenAddress>
  readonly token: Setting<string | undefined>
}

export function readApi(
  root: Located<MapNode>,
  sources: ConfigSources,
): ListenerSettings<ApiConfig> {
  const map = readSection(root, 'api', ['listen', 'tls', 'tokenFile', 'refusedStatus'])
  const { overrides, folder } = sources
  const listen = resolveSetting(
    overrides.apiListen,
    readExplicit(map, 'listen', readListen),
    API_LISTEN,
  )
  const token = readListenerToken(map, overrides.apiToken, sources)
  const config: ApiConfig = {
    listen: listen.value,
    tls: readOptional(map, 'tls', (located) => readTls(located, folder)),
    token: token.value,
    refusedStatus:
      readOptional(map, 'refusedStatus', (located) => readStatus(located, REFUSED_STATUSES)) ?? 429,
  }
  return { config, listen, token }
}

export function readAdmin(
  root: Located<MapNode>,
  sources: ConfigSources,
): ListenerSettings<AdminConfig> {
  const map = readSection(root, 'admin', ['listen', 'tokenFile'])
  const { overrides } = sources
  const listen = resolveSetting(
    overrides.adminListen,
    readExplicit(map, 'listen', readListen),
    ADMIN_LISTEN,
  )
  const token = readListenerToken(map, overrides.adminToken, sources)
  return { config: { listen: listen.value, token: token.value }, listen, token }
}

/** The file is not read if a variable has the token: it may exist only on other machines. */
function readListenerToken(
  map: Located<MapNode>,
  override: ExplicitValue<string> | undefined,
  files: FileAccess,
): Setting<string | undefined> {
  const fromFile =
    override === undefined
      ? readExplicit(map, 'tokenFile', (located) => readTokenFile(located, files))
      : undefined
  return resolveSetting<string | undefined>(override, fromFile, undefined)
}
