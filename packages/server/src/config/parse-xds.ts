/** Parses `envoy.xds`: the control plane that sends the configuration of the rate limit service. */
import {
  isWithin,
  type Located,
  locateEntry,
  readAnyMap,
  readOptional,
  readRequired,
  readText,
  reportAt,
} from '@sluice/core/config-reader'
import { readClientTls, requirePair } from './client-tls.js'
import type { ClientTlsFiles, ListenAddress, XdsConfig } from './config.js'
import { hideLongText, readFields } from './fields.js'
import { readDuration, readInteger, readName } from './values.js'

export const NODE_ID_LENGTH_MAX = 256
const METADATA = { items: 'values', most: 100 }
const METADATA_LENGTH_MAX = 1024
/** A fleet of gateways with thousands of limits has a few MiB. */
export const MESSAGE_BYTES = { least: 1024, most: 64 * 1024 * 1024 }
export const MESSAGE_BYTES_DEFAULT = 16 * 1024 * 1024
const PAUSE = { least: '10ms', most: '1h' }
export const BACKOFF_DEFAULT = { firstMs: 1000, mostMs: 60_000 }
const SERVER_LENGTH_MAX = 300
const PORT_MAX = 65_535
/** Names in Compose may have underscores. */
const SERVER = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+)):(\d{1,5})$/i
const ACCEPTED_SERVER = 'host:port of the control plane, such as envoy-gateway:18001'

export function readXds(located: Located, folder: string): XdsConfig | undefined {
  const keys = ['server', 'nodeId', 'nodeMetadata', 'tls', 'maxMessage', 'backoff']
  const map = readFields(located, keys)
  if (map === undefined) return undefined
  const server = readRequired(map, 'server', { accepted: ACCEPTED_SERVER, read: readServer })
  const nodeId = readRequired(map, 'nodeId', {
    accepted: 'the id by which the control plane chooses what it sends',
    read: (field) => readName(field, 'the id of this node', NODE_ID_LENGTH_MAX),
  })
  const others = {
    nodeMetadata: readOptional(map, 'nodeMetadata', readMetadata) ?? new Map(),
    headers: new Map(),
    tls: readOptional(map, 'tls', (field) => readTls(field, folder)),
    maxMessageBytes:
      readOptional(map, 'maxMessage', (field) => readInteger(field, MESSAGE_BYTES)) ??
      MESSAGE_BYTES_DEFAULT,
    backoff: readOptional(map, 'backoff', readBackoff) ?? BACKOFF_DEFAULT,
  }
  return server === undefined || nodeId === undefined ? undefined : { server, nodeId, ...others }
}

export function readServer(located: Located): ListenAddress | undefined {
  const text = readText(located, { accepted: ACCEPTED_SERVER, most: SERVER_LENGTH_MAX })
  if (text === undefined) return undefined
  const [, bracketed, name = '', digits = ''] = SERVER.exec(text) ?? []
  const port = Number(digits)
  if (port >= 1 && port <= PORT_MAX) return { host: bracketed ?? name.toLowerCase(), port }
  return reportAt(located, 'bad-value', { accepted: ACCEPTED_SERVER })
}

function readTls(located: Located, folder: string): ClientTlsFiles | undefined {
  const read = readClientTls(located, { folder, peer: 'the control plane' })
  if (read !== undefined) requirePair(read)
  return read?.files
}

function readMetadata(located: Located): ReadonlyMap<string, string> | undefined {
  const map = readAnyMap(hideLongText(located), 'a map of names to text, such as { zone: a }')
  if (map === undefined || !isWithin(located, map.node.entries.size, METADATA)) return undefined
  const values = new Map<string, string>()
  for (const entry of map.node.entries.values()) {
    const value = readName(locateEntry(map, entry), 'text', METADATA_LENGTH_MAX)
    if (value !== undefined) values.set(entry.key, value)
  }
  return values
}

function readBackoff(located: Located): XdsConfig['backoff'] | undefined {
  const map = readFields(located, ['first', 'most'])
  if (map === undefined) return undefined
  const read = (key: string) => readOptional(map, key, (field) => readDuration(field, PAUSE))
  const firstMs = read('first') ?? BACKOFF_DEFAULT.firstMs
  const mostMs = read('most') ?? Math.max(firstMs, BACKOFF_DEFAULT.mostMs)
  if (firstMs <= mostMs) return { firstMs, mostMs }
  const accepted = `first up to most: ${firstMs} ms is above ${mostMs} ms`
  return reportAt(map, 'bad-value', { accepted })
}
