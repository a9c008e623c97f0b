/** `api` and `admin`: where they listen, and the tokens without which they listen to nobody. */
import { type MapNode, readOptional, type Spot } from '@sluice/core/reading'
import type { AdminConfig, ApiConfig, ListenAddress } from './config.js'
import type { Overrides } from './environment.js'
import { type Given, readGiven, readSection, type Setting, settle } from './fields.js'
import { readListen } from './listen.js'
import { type Files, readTokenFile } from './secrets.js'
import { readStatus, readTls } from './values.js'

const API_LISTEN: ListenAddress = { host: '127.0.0.1', port: 8081 }
const ADMIN_LISTEN: ListenAddress = { host: '127.0.0.1', port: 9090 }
const REFUSED_STATUSES = [429, 403] as const

/** What is read where, and what overrides it. */
export interface Sources extends Files {
  readonly overrides: Overrides
}

export interface Door<T> {
  readonly config: T
  readonly listen: Setting<ListenAddress>
  readonly token: Setting<string | undefined>
}

export function readApi(root: Spot<MapNode>, sources: Sources): Door<ApiConfig> {
  const map = readSection(root, 'api', ['listen', 'tls', 'tokenFile', 'refusedStatus'])
  const { overrides, folder } = sources
  const listen = settle(overrides.apiListen, readGiven(map, 'listen', readListen), API_LISTEN)
  const token = readDoorToken(map, overrides.apiToken, sources)
  const config: ApiConfig = {
    listen: listen.value,
    tls: readOptional(map, 'tls', (spot) => readTls(spot, folder)),
    token: token.value,
    refusedStatus:
      readOptional(map, 'refusedStatus', (spot) => readStatus(spot, REFUSED_STATUSES)) ?? 429,
  }
  return { config, listen, token }
}

export function readAdmin(root: Spot<MapNode>, sources: Sources): Door<AdminConfig> {
  const map = readSection(root, 'admin', ['listen', 'tokenFile'])
  const { overrides } = sources
  const listen = settle(overrides.adminListen, readGiven(map, 'listen', readListen), ADMIN_LISTEN)
  const token = readDoorToken(map, overrides.adminToken, sources)
  return { config: { listen: listen.value, token: token.value }, listen, token }
}

/** The file is left alone where a variable has the token: it may be there for other machines. */
function readDoorToken(
  map: Spot<MapNode>,
  override: Given<string> | undefined,
  files: Files,
): Setting<string | undefined> {
  const given =
    override === undefined
      ? readGiven(map, 'tokenFile', (spot) => readTokenFile(spot, files))
      : undefined
  return settle<string | undefined>(override, given, undefined)
}
